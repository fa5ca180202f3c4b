/** The runs' summaries added up, as lines that a person and a script can both read. */
import type { VerdictCounts } from '../../src/contract/receipts.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';

interface Totals {
  runs: number;
  failedRuns: number;
  /** Non-blank lines. */
  captured: number;
  traced: number;
  quarantined: number;
  outsideWindow: number;
  /** Traces that carry a verdict. */
  evaluated: number;
  /** Verdicts and lines that are nowhere, and verdicts that are recorded as errors. */
  failed: number;
  verdicts: VerdictCounts;
  judgeCalls: number;
  judgeTokens: number;
  /** US dollars; `null` when the judge's price is not known. */
  cost: number | null;
  verdictsByScorer: Record<string, Record<string, number>>;
}

export function addUp(summaries: readonly RunSummary[]): Totals {
  const sum = (value: (summary: RunSummary) => number) => summaries.reduce((total, one) => total + value(one), 0);
  const verdicts = (term: keyof VerdictCounts) => sum((one) => one.verdicts[term]);
  const byScorer: Totals['verdictsByScorer'] = {};
  for (const { verdictsByScorer } of summaries) {
    for (const [scorer, values] of Object.entries(verdictsByScorer)) {
      byScorer[scorer] ??= {};
      const total = byScorer[scorer];
      for (const [value, count] of Object.entries(values)) total[value] = (total[value] ?? 0) + count;
    }
  }
  return {
    runs: summaries.length,
    failedRuns: sum((one) => (one.status === 'failed' ? 1 : 0)),
    captured: sum((one) => one.lines.planned),
    traced: sum((one) => one.lines.traced),
    quarantined: sum((one) => one.lines.quarantined),
    outsideWindow: sum((one) => one.lines.outsideWindow),
    evaluated: sum((one) => one.evaluatedTraces),
    failed: sum((one) => one.lines.lost) + verdicts('failed'),
    verdicts: {
      newVerdicts: verdicts('newVerdicts'),
      alreadyThere: verdicts('alreadyThere'),
      duplicateLine: verdicts('duplicateLine'),
      evaluationOff: verdicts('evaluationOff'),
      notSampled: verdicts('notSampled'),
      notJudgeable: verdicts('notJudgeable'),
      heldByBudget: verdicts('heldByBudget'),
      failed: verdicts('failed'),
    },
    judgeCalls: sum((one) => one.spend.calls),
    judgeTokens: sum((one) => one.spend.inputTokens + one.spend.outputTokens),
    cost: summaries.some((one) => one.spend.usd === null) ? null : sum((one) => one.spend.usd ?? 0),
    verdictsByScorer: byScorer,
  };
}

/** `name: number` lines; those that are only there to explain a difference are left out at 0. */
export function totalLines(totals: Totals): string[] {
  const explaining: [string, number][] = [
    ['outside_window', totals.outsideWindow],
    ['verdicts_already_there', totals.verdicts.alreadyThere],
    ['verdicts_duplicate_line', totals.verdicts.duplicateLine],
    ['verdicts_evaluation_off', totals.verdicts.evaluationOff],
    ['verdicts_not_sampled', totals.verdicts.notSampled],
    ['verdicts_not_judgeable', totals.verdicts.notJudgeable],
    ['verdicts_held_by_budget', totals.verdicts.heldByBudget],
    ['failed_runs', totals.failedRuns],
  ];
  return [
    `captured: ${totals.captured}`,
    `traced: ${totals.traced}`,
    `quarantined: ${totals.quarantined}`,
    `evaluated: ${totals.evaluated}`,
    `failed: ${totals.failed}`,
    `cost_usd: ${totals.cost === null ? 'unknown' : totals.cost.toFixed(4)}`,
    `verdicts: ${totals.verdicts.newVerdicts}`,
    `judge_calls: ${totals.judgeCalls}`,
    `judge_tokens: ${totals.judgeTokens}`,
    `runs: ${totals.runs}`,
    ...explaining.filter(([, count]) => count > 0).map(([name, count]) => `${name}: ${count}`),
  ];
}

/** One line a scorer: its values with how often each was given, or the mean of a number. */
export function verdictLines(totals: Totals): string[] {
  const scorers = Object.keys(totals.verdictsByScorer).sort();
  const width = Math.max(0, ...scorers.map((name) => name.length));
  return scorers.map((name) => {
    const values = totals.verdictsByScorer[name] ?? {};
    return `  ${name.padEnd(width)}  ${isNumeric(values) ? meanOf(values) : valueCounts(values)}`;
  });
}

/** A scorer that answers with numbers is summed up as `count` and `sum`. */
const isNumeric = (values: Record<string, number>): boolean =>
  Object.keys(values).length > 0 && Object.keys(values).every((name) => name === 'count' || name === 'sum');

const meanOf = ({ count = 0, sum = 0 }: Record<string, number>): string =>
  `mean ${count === 0 ? 0 : Number((sum / count).toFixed(1))} of ${count}`;

const valueCounts = (values: Record<string, number>): string =>
  Object.entries(values)
    .sort(([, a], [, b]) => b - a)
    .map(([value, count]) => `${value} ${count}`)
    .join(', ');
