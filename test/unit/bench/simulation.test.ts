import { explain, predict } from '../../../bench/scale/explain.ts';
import { CALLS, type Measured, ROLES } from '../../../bench/scale/measured.ts';
import { JUDGED_CAPTURE } from '../../../bench/scale/product.ts';
import { choicesFor, FRESH, grownFor, loadOf } from '../../../bench/scale/scenarios.ts';
import { type Quotas, simulate } from '../../../bench/scale/simulate.ts';
import { isBorne } from '../../../bench/scale/table.ts';

const none = { runs: 0, files: 0, chunks: 0, captures: 0 };
const seconds = Object.fromEntries(ROLES.map((role) => [role, { ...none, runs: 0.1 }])) as Measured['seconds'];
const calls = Object.fromEntries(
  CALLS.map((kind) => [kind, kind === 'mlflow' ? { ...none, chunks: 2, captures: 1 } : { ...none, runs: 3 }]),
) as Measured['calls'];
const measured: Measured = {
  at: '2026-11-22T00:00:00Z',
  machine: 'none',
  mlflow: '3.10.1',
  seconds,
  secondsUnjudged: seconds,
  calls,
  callsUnjudged: calls,
  planning: { backfill: 0.001, list: 0.003 },
};

describe('the parts', () => {
  test('counts are explained by the quantities that they are proportional to', () => {
    const truth = { runs: 6, files: 2, chunks: 3, captures: 0.25 };
    const shapes = [
      { runs: 1, files: 1, chunks: 1, captures: 1 },
      { runs: 1, files: 24, chunks: 1, captures: 24 },
      { runs: 1, files: 1, chunks: 3, captures: 1100 },
      { runs: 2, files: 12, chunks: 2, captures: 240 },
      { runs: 1, files: 1, chunks: 1, captures: 60 },
    ];
    const found = explain(shapes.map((shape) => ({ shape, count: predict(truth, shape) })));
    const unseen = { runs: 5, files: 100, chunks: 9, captures: 3000 };
    expect(predict(found, unseen) / predict(truth, unseen)).toBeCloseTo(1, 2);
  });
});

describe('a simulated account', () => {
  test('counts items that all functions write as if in one partition', () => {
    const gate = { ...calls, dynamodbWriteUnit: { ...none, captures: 2, chunks: 100 } };
    const load = { perSecond: 0, capturesPerFile: 500, seconds: 0, bursts: false, backfillFiles: 20 };
    const quotas = { ...grownFor(1000, { mlflow: 1.2, tableWrites: 1 }), partitionWritesPerSecond: 10 };
    const choices = choicesFor(quotas, { sampleRate: 0, maxFunctions: 1 });
    const { endSeconds, failed } = simulate({ quotas, load, choices }, { ...measured, callsUnjudged: gate });
    expect(failed).toBe(0);
    expect(endSeconds).toBeGreaterThan((20 * 100) / 10 - 10);
    expect(endSeconds).toBeLessThan(220);
  });

  test('bears a load if each burst is done before the next one, whatever the averages say', () => {
    const borne = (quotas: Quotas) => {
      const scenario = { quotas, load: loadOf(10, 20, 21_600, 21_600), choices: choicesFor(quotas) };
      return isBorne({ scenario, outcome: simulate(scenario, measured) });
    };
    const roomy = grownFor(10, { mlflow: 1.1, tableWrites: 1 });
    expect(borne(roomy)).toBe(true);
    expect(borne({ ...roomy, judgeTokensPerMinute: roomy.judgeTokensPerMinute * 0.7 })).toBe(false);
    expect(borne({ ...roomy, lambda: FRESH.lambda, judgeTokensPerMinute: FRESH.judgeTokensPerMinute })).toBe(false);
  });

  test('that is asked for too much uses its tightest quota, and fails nothing', () => {
    const outcome = simulate({ quotas: FRESH, load: loadOf(10, 1, 3600, 0), choices: choicesFor(FRESH) }, measured);
    const tokens = outcome.quotas.find(({ name }) => name === 'judge tokens');
    expect(tokens?.share).toBeGreaterThan(0.9);
    expect(outcome.failed).toBe(0);
    const perCapture = JUDGED_CAPTURE.inputTokens + JUDGED_CAPTURE.outputTokens * FRESH.outputBurndown;
    const most = (FRESH.judgeTokensPerMinute / perCapture) * 61;
    expect(outcome.done).toBeGreaterThan(0.8 * most);
    expect(outcome.done).toBeLessThanOrEqual(most);
  });
});
