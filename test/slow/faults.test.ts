import { LimitsTable } from '../../src/limits/table.ts';
import { isTraceWrite, isVerdictWrite } from '../doubles/fault-rules.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import type { Outcome } from '../helpers/deployed-pipeline.ts';
import { expectEquations, expectNothingDoubled, linesOf } from '../helpers/fault-expectations.ts';
import type { FoundAssessment } from '../helpers/fault-reader.ts';
import { expectWhole, faulty, run, stage } from '../helpers/faulty-runs.ts';
import { CAPTURE_BUCKET } from '../helpers/local-environment.ts';

describe('a capture that kills the function each time', () => {
  const pill = chatLine('deadlypill');
  const lines = [...linesOf('deadly', 9).slice(0, 5), pill, ...linesOf('deadly', 9).slice(5)];
  /** One after the first kill, and one for the line; of a trace that exists, one more. */
  const FURTHER = 3;
  let key: string;

  async function expectFound(outcome: Outcome, which: 'processor' | 'evaluator'): Promise<void> {
    const { arn, status, error, cause, summary } = outcome;
    expect({ status, error, cause }).toEqual({ status: 'SUCCEEDED' });
    expect(summary?.equations).toEqual({ lines: true, verdicts: true });
    expect(new Set(await faulty.pipeline.chunkErrors(arn))).toEqual(new Set(['Runtime.ExitError']));
    expect(await faulty.pipeline.childCalls(arn, which)).toBeLessThanOrEqual(1 + FURTHER);
  }

  test('ends alone in quarantine if it kills the processor, and a retry traces it', async () => {
    key = await stage('deadly', lines);
    faulty.mlflowProxy.inject((request) => {
      if (!isTraceWrite(request) || !request.body.includes('deadlypill')) return undefined;
      faulty.kill('processor');
      return { kind: 'cut' };
    });
    const outcome = await run(key, { evaluate: false });
    await expectFound(outcome, 'processor');
    expect(outcome.summary?.quarantineReasons).toEqual({ FunctionKilled: 1, NotJson: 1 });
    const equations = await faulty.equations(outcome.name);
    expectEquations({ equations });
    expect(equations.quarantinedLines).toContain(pill);
    const count = await faulty.count([key]);
    expectNothingDoubled(count);
    expect(count.missing).toHaveLength(1);

    faulty.heal();
    const retry = await faulty.pipeline.run({
      retry: { run: outcome.name, what: 'quarantined' },
      evaluate: false,
    });
    expect(retry.summary?.lines).toMatchObject({ planned: 2, traced: 1, quarantined: 1 });
  });

  test('has error assessments if it kills the evaluator, and all others are judged', async () => {
    const ids = await faulty.do<string[]>('trace_ids', { bucket: CAPTURE_BUCKET, keys: [key] });
    const deadly = ids[lines.indexOf(pill)] ?? '';
    faulty.mlflowProxy.inject((request) => {
      const isOfIt = request.path.includes(deadly) || request.body.includes(deadly);
      if (!isVerdictWrite(request) || !isOfIt || request.body.includes('FunctionKilled')) return undefined;
      faulty.kill('evaluator');
      return { kind: 'cut' };
    });
    const outcome = await run(key);
    await expectFound(outcome, 'evaluator');
    const { verdicts, unreportedAttempts } = outcome.summary ?? {};
    const errors = (await faulty.do<FoundAssessment[]>('assessments', { traceId: deadly })).filter(
      ({ value }) => value === null,
    );
    expect(errors.length).toBeGreaterThan(0);
    expect(verdicts).toMatchObject({ failed: errors.length, failedRecorded: errors.length, lost: 0 });
    expect(unreportedAttempts).toBeGreaterThan(0);
    const count = await expectWhole(outcome, key);
    expect(count.failedVerdicts).toBe(errors.length);
    // Ten of the records are chats. No answer of the judge is paid twice.
    expect(outcome.summary?.spend.calls).toBe(10);

    faulty.heal();
    const retry = await faulty.pipeline.run({ retry: { run: outcome.name, what: 'failed' } });
    expect(retry.summary?.verdicts).toMatchObject({ failed: 0, lost: 0 });
    // No verdict replaces the error of a scorer that does not apply to the capture.
    expect((await expectWhole(retry, key)).failedVerdicts).toBeLessThan(errors.length);
  });
});

test('a chunk waits in Step Functions for a permit, and is processed then', async () => {
  const WINDOW_MS = 10_000;
  const { pipeline } = faulty;
  const { MAX_FUNCTIONS = '' } = await pipeline.variablesOf('evaluator');
  const { client, table } = await pipeline.budgetTable();
  const gate = new LimitsTable(client, table);
  const hold = async (permits: number) => {
    const window = Math.floor(Date.now() / WINDOW_MS);
    for (const scope of [`semaphore#${window}`, `semaphore#${window + 1}`]) {
      await gate.update({ scope, expression: 'SET #functions = :permits', values: { permits } });
    }
  };
  const key = await stage('seatless');
  await hold(Number(MAX_FUNCTIONS));
  const arn = await pipeline.start(pipeline.event(key));
  await pipeline.until('a run that waits', async () => {
    await hold(Number(MAX_FUNCTIONS));
    return (await pipeline.childCalls(arn, 'evaluator')) > 1 || undefined;
  });
  await hold(0);
  client.destroy();
  const outcome = await pipeline.ended(arn);
  const errors = await pipeline.chunkErrors(arn);
  expect([errors, outcome.summary?.unreportedAttempts]).toEqual([[], undefined]);
  await expectWhole(outcome, key);
});
