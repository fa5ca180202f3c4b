/** The texts of the commands about runs. */
import { followSpeed, progressOf } from '../../../../bin/cli/follow-display.ts';
import { factsLine } from '../../../../bin/cli/progress.ts';
import { nextSteps, type RunPage, runsPage } from '../../../../bin/cli/run-text.ts';
import { inputText } from '../../../../bin/operate/executions.ts';
import { expectedSeconds, type RunProgress } from '../../../../bin/operate/run-progress.ts';
import { isPlanned, type RunReport } from '../../../../bin/operate/run-report.ts';
import { pageText } from '../../../../src/core/text/page.ts';
import type { RunSummary } from '../../../../src/monitoring/summary.ts';

const OPTIONS = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
const progress = (more: Partial<RunProgress> = {}): RunProgress => ({
  name: 'files-2026-11-20T10-00-00-0a1b2c3d4e5f6071',
  arn: '',
  status: 'RUNNING',
  startedMs: 0,
  error: undefined,
  cause: undefined,
  output: undefined,
  planned: { lines: 12_000, chunks: 30, more: false, options: OPTIONS },
  chunks: { done: 10, failing: 1 },
  lines: 4_000,
  usd: 1.25,
  expectedUsd: 3.75,
  batchJobs: undefined,
  news: [],
  ...more,
});

describe('the progress of runs', () => {
  test('has all facts in a pipe, and no bar', () => {
    expect(factsLine(progressOf([progress()], 40, 100_000))).toBe(
      '4,000 of 12,000 lines, 1 chunk failing, about 3 min 20 s left, 1 min 40 s, ' +
        '$1.25 of about $3.75, 40 lines/s, 10 of 30 chunks, files-2026-11-20T10-00-00-0a1b2c3d4e5f6071',
    );
  });

  test.each([
    [39, '██░░░░ 4,000 of 12,000 lines'],
    [79, '████░░░░░░░░░ 4,000 of 12,000 lines, 1 chunk failing, about 3 min 20 s left'],
  ])('has what fits %d columns, the most important first', (width, text) => {
    expect(factsLine(progressOf([progress()], 40, 100_000), width)).toBe(text);
  });

  test('says of several runs how many have ended, and of a part that more may follow', () => {
    const first = progress({ planned: { lines: 10, chunks: 1, more: true, options: OPTIONS }, lines: 5 });
    const text = factsLine(progressOf([first, progress({ status: 'FAILED', lines: 1 })], undefined, 1_000));
    expect(text).toMatch(/^6 of 12,010\+ lines, .*1 of 2 runs ended/);
    expect(text).not.toContain('left');
  });

  test('a pace is measured from the first lines that were done', () => {
    const pace = followSpeed();
    expect(pace([progress({ lines: 0 })], 0)).toBeUndefined();
    expect(pace([progress({ lines: 100 })], 50_000)).toBeUndefined();
    expect(pace([progress({ lines: 300 })], 60_000)).toBe(20);
  });
});

const SUMMARY = {
  run: 'a',
  status: 'failed',
  startedAt: '2026-11-20T10:00:00.000Z',
  endedAt: '2026-11-20T10:02:00.000Z',
  options: OPTIONS,
  objects: 2,
  chunks: { planned: 3, logged: 2, evaluated: 2, failed: 1 },
  lines: { planned: 100, traced: 60, quarantined: 0, outsideWindow: 0, lost: 40, written: 60 },
  verdicts: { expected: 600, lost: 0, failed: 0, heldByBudget: 12, newVerdicts: 588 },
  verdictsByScorer: {},
  reasons: {},
  evaluatedTraces: 60,
  spend: { calls: 60, inputTokens: 1, outputTokens: 1, usd: 1 },
  failedChunks: [
    {
      chunk: 2,
      step: 'evaluate',
      key: 'my-endpoint/AllTraffic/2026/11/20/10/a.jsonl',
      firstLine: 61,
      lines: 40,
      error: { name: 'JudgeRefused', message: 'no access \u001b[31m to\u202e the model' },
    },
  ],
} as unknown as RunSummary;

const page = (more: Partial<RunReport> = {}): RunPage => {
  const report = {
    run: 'last-week',
    status: 'failed',
    asked: 's3://b/my-endpoint/',
    input: { bucket: 'b', prefix: 'my-endpoint/', sampleRate: 0.5 },
    summary: SUMMARY,
    isFinal: true,
    quarantined: [],
    openBatchJobs: [],
    ...more,
  } as RunReport;
  return { report, next: nextSteps(report), links: { traces: 'https://mlflow.test/#/experiments/1/traces' } };
};

describe('the page about runs', () => {
  test('says what failed and where, what was held, and the next commands, without control characters', () => {
    const text = pageText(runsPage([page()]));
    expect(text).toContain('40 of 100 lines and 0 of 600 verdicts are missing');
    expect(text).toContain(
      'my-endpoint/AllTraffic/2026/11/20/10/a.jsonl:61, 40 lines (chunk 2, evaluate): JudgeRefused: no access [31m to the model',
    );
    expect(text).toContain('12 verdicts by the budget: EVALUATION_BUDGET_USD');
    expect(text).toContain('  inference-monitor retry last-week --what failed');
    expect(text).toContain('  inference-monitor retry last-week --what held');
  });

  test('adds several runs up, and keeps what is particular to each', () => {
    const { lines, verdicts } = SUMMARY;
    const none = { lines: { ...lines, lost: 0 }, verdicts: { ...verdicts, heldByBudget: 0 } };
    const whole = { ...SUMMARY, ...none, failedChunks: [] };
    const other = page({ run: 'other', status: 'succeeded', summary: whole });
    const text = pageText(runsPage([page(), other]));
    expect(text).toMatch(/^── 2 runs ──\nlast-week: failed, .*\nother: succeeded, /);
    expect(text).toMatch(/^captured 200, /m);
    expect(text).toContain('── last-week ──');
    expect(text).not.toContain('── other ──');
  });
});

describe.each([
  ['in part', { summary: { ...SUMMARY, partlyPlanned: true as const } }],
  ['not at all, by its summary', { summary: { ...SUMMARY, chunks: { ...SUMMARY.chunks, planned: 0 } } as RunSummary }],
  ['not at all, and left nothing', { summary: undefined }],
])('a run that was planned %s', (_, more) => {
  test('is retried with its own input, once it has ended without success', () => {
    const { report } = page(more);
    expect(nextSteps(report, 'staging')[0]).toEqual({
      why: 'planning had not finished: start the same input again',
      command: 'inference-monitor retry last-week --what failed --stack staging',
    });
    expect(isPlanned(report)).toBe(false);
    expect(isPlanned({ ...report, status: 'running' })).toBe(true);
    expect(isPlanned({ ...report, input: null })).toBe(true);
  });
});

test('what was planned is retried by its chunks', () => {
  expect(isPlanned(page().report)).toBe(true);
  expect(isPlanned({ ...page().report, status: 'stopped' })).toBe(true);
});

test('a run that failed before it planned anything is not one with nothing to do', () => {
  const failed = progress({ status: 'FAILED', planned: undefined });
  expect(factsLine(progressOf([failed], undefined, 0))).toMatch(/: nothing was planned$/);
});

describe('the time of a run', () => {
  /** @param units calls of the judge, and lines */
  const ran = (units: number, seconds: number): RunSummary => ({
    ...(SUMMARY as RunSummary),
    status: 'succeeded',
    spend: { ...SUMMARY.spend, calls: units } as never,
    lines: { ...SUMMARY.lines, written: units } as never,
    endedAt: new Date(Date.parse(SUMMARY.startedAt) + seconds * 1_000).toISOString(),
  });

  test.each([
    ['a run takes 60 s to start, and 1 s for ten calls', [ran(20, 62), ran(100, 70)], 490, 109],
    ['none is shorter than the shortest', [ran(1_000, 100), ran(2_000, 300)], 10, 100],
    ['one run tells not what its start took', [ran(26, 60)], 490, undefined],
    ['runs of one size', [ran(26, 60), ran(26, 70)], 490, undefined],
    ['the larger one was faster', [ran(26, 60), ran(300, 20)], 490, undefined],
    ['runs that did not succeed', [SUMMARY as RunSummary, ran(26, 60)], 490, undefined],
  ])('%s', (_, earlier, units, seconds) => {
    for (const estimate of [
      { captures: 10, judgeCalls: units },
      { captures: units, judgeCalls: 0 },
    ]) {
      const found = expectedSeconds(estimate, earlier);
      if (seconds === undefined) expect(found).toBeUndefined();
      else expect(Math.abs((found ?? 0) - seconds)).toBeLessThan(1);
    }
  });
});

test.each([
  [{ detail: { bucket: { name: 'b' }, object: { key: 'k' } }, evaluate: false }, 's3://b/k, no evaluation'],
  [{ files: { key: 'starts/x' } }, 'capture files'],
  [{ bucket: 'b', prefix: 'p/', from: 'x', to: 'y', judge: 'batch' }, 's3://b/p/ from x to y, batch'],
  [{ retry: { run: 'r', what: 'held' }, budgetUsd: 5 }, 'held of r, at most $5'],
  [{ replay: { run: 'r', experimentId: '7' }, budgetUsd: 20 }, 'exchanges of r, at most $20'],
  [null, 'unknown input'],
])('%j in words', (input, words) => {
  expect(inputText(input)).toBe(words);
});
