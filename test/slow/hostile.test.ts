/** Hostile lines with a version of MLflow that takes traces as files, large ones, judges that answer oddly, and the fuzzer. */
import { goodLine, hostileLines } from '../hostile/lines.ts';
import { isSmall, testFuzzer, testGoodLines } from '../hostile/mixed.ts';
import { throughPipeline } from '../hostile/pipeline.ts';

testGoodLines('3.10.1', hostileLines().filter(isSmall));
testGoodLines('3.17.2', hostileLines());
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
