/** Expectations that must hold after any fault, as the Python reader counts. */

import { captureLine, chatLine } from './deployed-captures.ts';
import type { FaultCase, FaultPipeline, RunOutcome } from './fault-pipeline.ts';
import type { Count } from './fault-reader.ts';

export const TIME = '2026-11-20T10:00:00Z';
const NOT_A_RECORD = '{"captureData": {"endpointInput": "cut off';
export const CHATS = 6;

/** Returns chats, a table, a duplicate of the first chat, and a line that is not a capture record. */
export function linesOf(name: string, chats = CHATS): string[] {
  const all = Array.from({ length: chats }, (_, n) => chatLine(`${name}-${n}`, TIME));
  const csv = { contentType: 'text/csv', encoding: 'CSV' as const };
  const [input, output] = ['5.1,3.5\n6.2,2.9\n', '0.9\n0.1\n'].map((data) => ({ ...csv, data }));
  const table = captureLine(`${name}-csv`, TIME, input, output);
  return [...all, table, all[0] ?? '', NOT_A_RECORD];
}

/** Expects that nothing in MLflow is doubled or wrong. Traces may be missing. */
export function expectNothingDoubled(count: Count): void {
  expect({ wrong: count.wrong, doubledVerdicts: count.doubledVerdicts }).toEqual({ wrong: [], doubledVerdicts: [] });
}

/** Expects that both equations hold, as the Python reader computes them. */
export function expectEquations({ equations }: Pick<RunOutcome, 'equations'>): void {
  expect(equations.accounted).toBe(equations.planned);
  expect(equations.verdictsAccounted).toBe(equations.verdictsExpected);
  expect(equations.quarantinedInObjects).toBe(equations.quarantinedInReceipts);
}

/** Expects that the run succeeded, that both equations hold, and that every record of the files is in MLflow exactly once. */
export async function expectWhole(one: FaultCase, outcome: RunOutcome, keys = [one.key()]): Promise<Count> {
  const { status, error, failedChunks, lines } = outcome.summary;
  expect({ status, error, failedChunks }).toEqual({ status: 'succeeded', error: undefined, failedChunks: [] });
  expect(outcome.summary.equations).toEqual({ lines: true, verdicts: true });
  expectEquations(outcome);
  const count = await one.count(keys);
  expectNothingDoubled(count);
  const { missing, tokens, expectedTokens } = count;
  const { quarantineReasons } = outcome.summary;
  expect([missing, tokens, quarantineReasons.MlflowFailsOnTrace]).toEqual([[], expectedTokens, undefined]);
  expect(lines.planned).toBe(count.lines);
  return count;
}

/** Runs the same input again without faults, and expects that nothing is written, the judge is not asked, and nothing changes. */
export async function expectSettled(pipeline: FaultPipeline, one: FaultCase, before: Count, keys?: string[]) {
  pipeline.heal();
  pipeline.judge.forget();
  const again = await one.run();
  const after = await expectWhole(one, again, keys);
  expect(again.summary.lines.written).toBe(0);
  expect(again.summary.verdicts.newVerdicts).toBe(0);
  expect(pipeline.judge.counts.calls).toBe(0);
  expect(after).toEqual(before);
}

/** Expects that the run failed with this error. */
export function expectFailed(outcome: RunOutcome, name: string | RegExp): void {
  expect(outcome.summary.status).toBe('failed');
  const names = [outcome.summary.error?.name, ...outcome.summary.failedChunks.map(({ error }) => error.name)];
  expect(names).toEqual(expect.arrayContaining([expect.stringMatching(name)]));
}
