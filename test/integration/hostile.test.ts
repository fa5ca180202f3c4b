/** Processes every hostile line between good lines. A hostile line must not affect the good ones. */
import { spawnSync } from 'node:child_process';
import { projectPath } from '../../local/project-root.ts';
import { goodLine, hostileLines } from '../hostile/lines.ts';
import { assertGoodOnesWhole, throughPipeline } from '../hostile/pipeline.ts';
import { throughReplay } from '../hostile/replaying.ts';

const hostile = hostileLines();

/** Puts a good line before each hostile one, and one after the last. The good lines have even indexes. */
const between = (lines: readonly { line: Buffer }[]): Buffer[] => [
  ...lines.flatMap(({ line }, index) => [goodLine(index), line]),
  goodLine(lines.length),
];

test.each([
  ['3.17.2', hostile],
  // Large lines behave the same with every version.
  ['3.10.1', hostile.filter(({ line }) => line.length < 50_000)],
] as const)('leave the good lines unchanged in the pipeline with MLflow %s', async (version, lines) => {
  const mixed = between(lines);
  const good = mixed.map((_, index) => index).filter((index) => index % 2 === 0);
  const outcome = await throughPipeline(mixed, { version });
  assertGoodOnesWhole(outcome, good);
  const alone = await throughPipeline(
    good.map((index) => mixed[index] as Buffer),
    { version },
  );
  const verdictsOf = ({ assessments }: typeof outcome, id: string) =>
    assessments.get(id)?.map(({ name, value, rationale }) => ({ name, value, rationale }));
  for (const id of alone.ids) expect(verdictsOf(outcome, id)).toEqual(verdictsOf(alone, id));
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
  const { counts, traced, scorers, spend } = evaluate;
  expect(Object.values(counts).reduce((sum, count) => sum + count)).toBe(traced * scorers);
  expect(spend.usd).toBeGreaterThanOrEqual(0);
});

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

test('the fuzzer finds no fault in its first cases', () => {
  const args = [projectPath('test', 'hostile', 'fuzz.ts'), '--cases', '200', '--seed', '1'];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect({ status, stdout, stderr }).toMatchObject({ status: 0, stdout: expect.stringContaining('0 faults found') });
});
