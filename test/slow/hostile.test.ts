/** Hostile lines between good lines, which must not change: in two versions of MLflow, in a replay, with judges that answer oddly; and the fuzzer. */
import { goodLine, hostileLines } from '../hostile/lines.ts';
import { between, isSmall, testFuzzer, testGoodLines } from '../hostile/mixed.ts';
import { throughPipeline } from '../hostile/pipeline.ts';
import { throughReplay } from '../hostile/replaying.ts';

const hostile = hostileLines();

testGoodLines('3.10.1', hostile.filter(isSmall));
testGoodLines('3.17.2', hostile);

test('leave the good lines unchanged in a replay and its comparison', async () => {
  const mixed = between(hostile);
  const outcome = await throughReplay(mixed);
  const sent = new Map(
    outcome.records.map((record) => [record.metadata.event_id ?? record.metadata.x_request_id, record]),
  );
  expect({ stderr: outcome.stderr, comparison: outcome.comparison }).toMatchObject({ comparison: 0 });
  expect(outcome.records.length + outcome.skipped.length).toBe(mixed.length);
  for (let index = 0; index <= hostile.length; index += 1) {
    expect(sent.get(`good-${index}`)).toBeDefined();
    expect(sent.get(`good-${index}`)?.error).toBeUndefined();
  }
});
test.each([
  ['prose', () => ({ text: 'I think that it is fine.' })],
  ['an empty text', () => ({ text: '' })],
  ['a deeply nested answer', () => ({ text: `${'{"a":'.repeat(8000)}1${'}'.repeat(8000)}` })],
  ['endless open brackets', () => ({ text: '{"safety":['.repeat(20_000) })],
  ['odd usage', () => ({ usage: { inputTokens: -1e9, outputTokens: Number.NaN, cacheReadInputTokens: 1e300 } })],
])('a judge that answers with %s leaves an error assessment or a verdict on each capture', async (_title, answer) => {
  const lines = [0, 1, 2].map(goodLine);
  const { evaluate, log } = await throughPipeline(lines, { answer });
  expect(log.counts.traced).toBe(3);
  const { counts, scorers, spend } = evaluate;
  expect(Object.values(counts).reduce((sum, count) => sum + count)).toBe(3 * scorers);
  expect(spend.usd).toBeGreaterThanOrEqual(0);
});

testFuzzer(200);
