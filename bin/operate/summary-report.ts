/** The totals of several runs, as lines that people and scripts can read. */
import { VERDICT_TERMS, type VerdictCounts } from '../../src/core/contract/receipts.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';

type Totals = ReturnType<typeof addUp>;

/** Adds up the summaries of runs. */
export function addUp(summaries: readonly RunSummary[]) {
  const sum = (value: (summary: RunSummary) => number) => summaries.reduce((total, one) => total + value(one), 0);
  const verdicts = (term: keyof VerdictCounts) => sum((one) => one.verdicts[term]);
  const byScorer: RunSummary['verdictsByScorer'] = {};
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
    /** Non-blank lines. */
    captured: sum((one) => one.lines.planned),
    traced: sum((one) => one.lines.traced),
    quarantined: sum((one) => one.lines.quarantined),
    outsideWindow: sum((one) => one.lines.outsideWindow),
    /** Traces with a verdict. */
    evaluated: sum((one) => one.evaluatedTraces),
    /** Lost lines and verdicts, and verdicts that are recorded as errors. */
    failed: sum((one) => one.lines.lost) + verdicts('failed'),
    verdicts: Object.fromEntries(VERDICT_TERMS.map((term) => [term, verdicts(term)])) as unknown as VerdictCounts,
    judgeCalls: sum((one) => one.spend.calls),
    judgeTokens: sum((one) => one.spend.inputTokens + one.spend.outputTokens),
    /** US dollars; `null` if the judge's price is unknown. */
    cost: summaries.some((one) => one.spend.usd === null) ? null : sum((one) => one.spend.usd ?? 0),
    verdictsByScorer: byScorer,
  };
}

/** Returns lines of `name: number`. Those that only explain a difference are omitted if they are 0. */
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

/** Returns a line per scorer: each value with its count, or the mean of a numeric scorer. */
export function verdictLines(totals: Totals): string[] {
  const scorers = Object.keys(totals.verdictsByScorer).sort();
  const width = Math.max(0, ...scorers.map((name) => name.length));
  return scorers.map((name) => {
    const values = totals.verdictsByScorer[name] ?? {};
    return `  ${name.padEnd(width)}  ${isNumeric(values) ? meanOf(values) : valueCounts(values)}`;
  });
}

/** A numeric scorer is summarized as `count` and `sum`. */
const isNumeric = (values: Record<string, number>): boolean =>
  Object.keys(values).length > 0 && Object.keys(values).every((name) => name === 'count' || name === 'sum');

const meanOf = ({ count = 0, sum = 0 }: Record<string, number>): string =>
  `mean ${count === 0 ? 0 : Number((sum / count).toFixed(1))} of ${count}`;

const valueCounts = (values: Record<string, number>): string =>
  Object.entries(values)
    .sort(([, a], [, b]) => b - a)
    .map(([value, count]) => `${value} ${count}`)
    .join(', ');
