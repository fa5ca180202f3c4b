/** The summary of a run: its equations, its money, and the description of its failure. */
import type { ManifestLine } from '../../../src/core/contract/payloads.ts';
import type { EvaluateReceipt, LogReceipt, PlanReceipt } from '../../../src/core/contract/receipts.ts';
import { NO_VERDICT_COUNTS } from '../../../src/core/contract/receipts.ts';
import { isCacheKnown } from '../../../src/monitoring/cache-missed.ts';
import { chunkState } from '../../../src/monitoring/receipts.ts';
import { describeFailure } from '../../../src/monitoring/run-failure.ts';
import { SummaryBuilder } from '../../../src/monitoring/summary.ts';

const run = { name: 'run-1', startTime: '2026-11-20T10:00:00Z' };
const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };

const plan = (more: Partial<PlanReceipt> = {}): PlanReceipt => ({
  contract: 1,
  part: 0,
  outcome: 'planned',
  objects: 1,
  chunks: 1,
  lines: 10,
  bytes: 1000,
  scorers: 3,
  more: false,
  options,
  input: {},
  ...more,
});

const chunk = (ordinal = 0): ManifestLine => ({
  chunk: ordinal,
  experimentId: '1',
  lines: 10,
  ranges: [
    { bucket: 'captures', key: 'e/a.jsonl', etag: 'x', start: 0, end: 999, firstLine: 1, lines: 10, objectTimeMs: 0 },
  ],
});

const common = { run: 'run-1', chunk: 0, attempt: 0, requestId: 'q', startedAt: '1', endedAt: '2', ok: true };

const log = (more: Partial<LogReceipt> = {}): LogReceipt => ({
  ...common,
  step: 'log',
  counts: { lines: 10, traced: 8, written: 6, alreadyThere: 1, duplicateLine: 1, quarantined: 2, outsideWindow: 0 },
  quarantineReasons: { NotJson: 2 },
  ...more,
});

const evaluate = (more: Partial<EvaluateReceipt> = {}): EvaluateReceipt => ({
  ...common,
  step: 'evaluate',
  scorers: 3,
  evaluatedTraces: 8,
  log: log(),
  counts: { ...NO_VERDICT_COUNTS, newVerdicts: 20, duplicateLine: 3, failed: 1 },
  failedRecorded: 1,
  reasons: {},
  verdicts: { safety: { yes: 7, no: 1 } },
  spend: { calls: 8, inputTokens: 100, outputTokens: 10, usd: 0.5 },
  ...more,
});

const summarize = (
  plans: PlanReceipt[],
  receipts: (LogReceipt | EvaluateReceipt)[],
  error?: { name: string; message: string },
) => {
  const builder = new SummaryBuilder(run, error);
  for (const receipt of plans) builder.addPlan(receipt);
  const state = chunkState(receipts);
  builder.addSpend(state);
  if (plans.some(({ chunks }) => chunks > 0)) builder.addChunk(chunk(), state);
  return builder.build();
};

describe('the summary of a run', () => {
  test('succeeds with quarantined lines and recorded error verdicts, and its equations hold', () => {
    const summary = summarize([plan()], [log(), evaluate()]);
    expect(summary.status).toBe('succeeded');
    expect(summary.equations).toEqual({ lines: true, verdicts: true });
    expect(summary.lines).toMatchObject({ planned: 10, traced: 8, quarantined: 2, lost: 0 });
    expect(summary.verdicts).toMatchObject({ expected: 24, newVerdicts: 20, failed: 1, failedRecorded: 1, lost: 0 });
    expect(summary.quarantineReasons).toEqual({ NotJson: 2 });
  });

  test.each([
    ['kill', { kills: 1 }],
    ['attempt', { attempt: 1 }],
  ])('counts the success after one more %s, in whatever order the receipts come', (_, more) => {
    const [earlier, later] = [evaluate({ endedAt: '9', evaluatedTraces: 7 }), evaluate(more)];
    for (const receipts of [
      [earlier, later],
      [later, earlier],
    ]) {
      const state = chunkState(receipts);
      expect(state.evaluate.done).toBe(later);
    }
  });

  test.each([
    [{ cacheCalls: 20, cacheReadTokens: 0, cacheWriteTokens: 41_500 }, true, true],
    [{ cacheCalls: 19, cacheReadTokens: 0, cacheWriteTokens: 0 }, false, false],
    [{ cacheCalls: 20, cacheReadTokens: 2075, cacheWriteTokens: 0 }, false, true],
    [{ cacheCalls: 2, cacheReadTokens: 2075, cacheWriteTokens: 0 }, false, true],
    [{}, false, false],
  ])('says that the cache of the judge was never hit, of %j: %s, known: %s', (use, missed, known) => {
    const half = Object.fromEntries(Object.entries(use).map(([name, tokens]) => [name, tokens / 2]));
    const spend = { calls: 10, inputTokens: 100, outputTokens: 10, usd: 0.5, ...half };
    const failed = evaluate({ spend, ok: false, error: { name: 'JudgeThrottled', message: 'slow' } });
    const summary = summarize([plan()], [failed, evaluate({ attempt: 1, spend }), log()]);
    expect(summary.spend).toEqual({ calls: 20, inputTokens: 200, outputTokens: 20, usd: 1, ...use });
    const warnings = missed ? [expect.stringMatching(/^20 calls .* none read them .*41500 tokens/)] : undefined;
    expect(summary.warnings).toEqual(warnings);
    expect(isCacheKnown(summary.spend)).toBe(known);
  });

  test('counts the attempts without a receipt, whose cost is unknown', () => {
    const failed = evaluate({ attempt: 1, ok: false, error: { name: 'MlflowUnavailable', message: 'away' } });
    const summary = summarize([plan()], [log(), failed, evaluate({ attempt: 4 })]);
    expect(summary).toMatchObject({ status: 'succeeded', unreportedAttempts: 3, spend: { calls: 16 } });
    expect(summarize([plan()], [log(), evaluate()])).not.toHaveProperty('unreportedAttempts');
  });

  test('counts every killed evaluation, and attempts without a receipt after each kill', () => {
    const error = { name: 'JudgeThrottled', message: 'slow' };
    const throttled = evaluate({ ok: false, error, startedAt: '0', endedAt: '0' });
    expect(summarize([plan()], [log(), throttled, evaluate({ kills: 3, attempt: 2 })])).toMatchObject({
      status: 'succeeded',
      unreportedAttempts: 5,
    });
  });

  test('counts the cost once when an evaluation that was presumed killed leaves its receipt later', () => {
    const paid = { calls: 6, inputTokens: 60, outputTokens: 6, usd: 0.25 };
    const frozen = evaluate({ requestId: 'frozen', endedAt: '9', spend: paid });
    const none = { calls: 2, inputTokens: 0, outputTokens: 0, usd: 0.25 };
    const next = evaluate({ kills: 1, requestId: 'next', startedAt: '3', spend: none, paidByOthers: { frozen: paid } });
    const summary = summarize([plan()], [log(), frozen, next]);
    expect(summary).toMatchObject({ status: 'succeeded', spend: { calls: 8, usd: 0.5 } });
    expect(summary).not.toHaveProperty('unreportedAttempts');
    // The presumed dead attempt never resumed.
    expect(summarize([plan()], [log(), next])).toMatchObject({ unreportedAttempts: 1, spend: { calls: 8 } });
    const seen = { frozen: { ...paid, calls: 5 }, next: none };
    const last = evaluate({ kills: 2, requestId: 'last', startedAt: '5', spend: none, paidByOthers: seen });
    for (const receipts of [[next, last], [last], [frozen, next, last]]) {
      const { spend } = summarize([plan()], [log(), ...receipts]);
      expect(spend.calls).toBe(receipts.length === 1 ? 9 : 10);
    }
  });

  test('counts the answers of a batch job once, however many attempts have read them', () => {
    const batchSpend = { calls: 10, inputTokens: 1000, outputTokens: 100, usd: 2 };
    const failed = evaluate({ ok: false, error: { name: 'MlflowUnavailable', message: 'away' }, batchSpend });
    const early = evaluate({ ok: false, attempt: 1, error: { name: 'StorageUnavailable', message: 'away' } });
    const summary = summarize([plan()], [log(), failed, early, evaluate({ attempt: 2, batchSpend })]);
    expect(summary.spend).toEqual({ calls: 34, inputTokens: 1300, outputTokens: 130, usd: 3.5 });
  });

  test('loses the lines of a chunk without a log receipt, and fails', () => {
    const summary = summarize([plan()], []);
    expect(summary.status).toBe('failed');
    expect(summary.lines.lost).toBe(10);
    expect(summary.failedChunks[0]).toMatchObject({ step: 'log', error: { name: 'NoReceipt' } });
    expect(describeFailure(summary).error).toBe('RunIncomplete');
    expect(describeFailure(summary).cause).toContain('{"retry":{"run":"run-1","what":"failed"}}');
  });

  test('counts the answers of a failed evaluation, and loses the rest', () => {
    const half = evaluate({ ok: false, counts: { ...NO_VERDICT_COUNTS, newVerdicts: 9 }, failedRecorded: 0 });
    const summary = summarize([plan()], [log(), half]);
    expect(summary.status).toBe('failed');
    expect(summary.verdicts).toMatchObject({ expected: 24, newVerdicts: 9, failed: 15, lost: 15 });
    expect(summary.equations.verdicts).toBe(true);
    // Without a receipt, all are lost.
    expect(summarize([plan()], [log()]).verdicts).toMatchObject({ expected: 24, failed: 24, lost: 24 });
  });

  test('counts the verdicts of a run without evaluation as a separate term', () => {
    const summary = summarize([plan({ options: { ...options, evaluate: false } })], [log()]);
    expect(summary.status).toBe('succeeded');
    expect(summary.verdicts).toMatchObject({ expected: 24, evaluationOff: 24, lost: 0 });
  });

  test('fails when a chunk has fewer lines than planned', () => {
    const short = log({ counts: { ...log().counts, lines: 9, traced: 7 } });
    expect(summarize([plan()], [evaluate({ log: short })]).status).toBe('failed');
  });

  test('warns of captures without a trace that a re-evaluation neither judges nor traces', () => {
    const missing = evaluate({ reasons: { traceMissing: 8 } });
    const options = { ...plan().options, reevaluate: true };
    const { warnings } = summarize([plan({ options, scorers: 4 })], [log(), missing]);
    expect(warnings).toEqual([expect.stringMatching(/^2 captures have no trace/)]);
    expect(summarize([plan({ options, scorers: 4 })], [log(), evaluate()])).not.toHaveProperty('warnings');
    expect(summarize([plan({ scorers: 4 })], [log(), missing])).not.toHaveProperty('warnings');
  });

  test('fails when planning stopped before its last part, and advises against a retry, which would leave out the rest', () => {
    const summary = summarize([plan({ more: true })], [log(), evaluate()], {
      name: 'MlflowUnavailable',
      message: 'away',
    });
    expect(summary).toMatchObject({ status: 'failed', partlyPlanned: true });
    expect(describeFailure(summary).cause).toMatch(/MlflowUnavailable.+start the same input again/);
    expect(describeFailure(summary).cause).not.toContain('"retry"');
    expect(summarize([plan({ more: true }), plan({ part: 1 })], [log(), evaluate()])).not.toHaveProperty(
      'partlyPlanned',
    );
  });

  test('reports the error of planning', () => {
    const summary = summarize([], [], { name: 'CaptureMissing', message: 'gone' });
    expect(summary.status).toBe('failed');
    expect(describeFailure(summary)).toEqual({ error: 'CaptureMissing', cause: 'gone' });
  });

  test('has an unknown cost, not 0, when a price is unknown', () => {
    const spend = { calls: 1, inputTokens: 1, outputTokens: 1, usd: null };
    expect(summarize([plan()], [log(), evaluate({ spend })]).spend.usd).toBeNull();
  });

  test('fails for a retry of `held` that judged nothing', () => {
    const input = { retry: { run: 'run-0', what: 'held' } };
    const again = (counts: object) =>
      summarize(
        [plan({ input })],
        [log(), evaluate({ counts: { ...NO_VERDICT_COUNTS, ...counts }, failedRecorded: 0 })],
      );
    const held = again({ heldByBudget: 4, alreadyThere: 20 });
    expect(held.status).toBe('failed');
    expect(describeFailure(held)).toEqual({
      error: 'VerdictsStillHeld',
      cause: expect.stringContaining('{"retry":{"run":"run-1","what":"held"}}'),
    });
    expect(again({ heldByBudget: 3, newVerdicts: 1, alreadyThere: 20 }).status).toBe('succeeded');
    expect(again({ alreadyThere: 24 }).status).toBe('succeeded');
  });
});
