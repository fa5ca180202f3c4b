/** The parts of terminal output and HTML reports about replays: figures, quality of replies, and the comparison of two replays. */
import { dollars } from '../../core/text/figure-text.ts';
import { block, facts, green, type Page, type Part, red, section, sheet, table } from '../../core/text/page.ts';
import { durationText, singleLine } from '../../core/text/terminal-text.ts';
import { sum } from '../../core/values/sum.ts';
import { metricRows, type RunFacts, type RunsComparison } from '../compare/compare-runs.ts';
import { errorsText, type Quality } from '../compare/quality.ts';
import { COMPARED_METRICS, isLargerBetter } from '../compare/run-data.ts';
import type { FinishedReplay } from '../finished.ts';
import { DIFFERENCE_COLUMNS, differenceTexts } from '../gate/texts.ts';
import { REPORT_METRICS } from '../metrics.ts';
import { durationSeconds } from '../results/summary.ts';

const COLUMNS = ['avg', 'p50', 'p90', 'p95', 'p99', 'max'] as const;
const MAX_ERRORS = 10;
const MAX_ERROR_CHARS = 300;

/** The captured lines that are not sent, by reason. */
export const skippedPage = (skipped: ReadonlyMap<string, number>): Page => [
  facts({ skipped: sum([...skipped.values()]) }),
  [facts(Object.fromEntries(skipped))],
];

/** Returns the sent requests, the measurements and the errors. */
export function figuresPage({ sent, unsent, results }: FinishedReplay): Page {
  const { stats, skippedReasons } = results;
  const { succeeded, failed, cancelled, distributions, withObjectives, good, completed, errorsByCount } = stats;
  const seconds = durationSeconds(stats);
  const perSecond = (value: number): string => (seconds === 0 ? '0' : (value / seconds).toFixed(2));
  const tokens = distributions.get('output_sequence_length')?.sum;
  const rows = REPORT_METRICS.map(([metric, name]) => {
    const summary = distributions.get(metric)?.summary();
    return summary && [name, ...COLUMNS.map((column) => summary[column].toFixed(2))];
  });
  const errors = errorsByCount.slice(0, MAX_ERRORS).map(({ error: { code, type, message }, count }) => {
    return [String(count), String(code ?? ''), type, singleLine(message).slice(0, MAX_ERROR_CHARS)];
  });
  return [
    facts({
      ...{ sent, succeeded, failed, cancelled },
      duration: seconds < 60 ? `${seconds.toFixed(2)} s` : durationText(seconds),
      'requests per second': perSecond(succeeded),
      unsent: unsent > 0 && unsent,
      'output tokens per second': tokens !== undefined && perSecond(tokens),
      'good requests': withObjectives && `${good} of ${completed}`,
    }),
    ...skippedPage(skippedReasons),
    block(table(rows, ['figure', 'mean', ...COLUMNS.slice(1)])),
    sheet('Errors', '', ['count', 'code', 'type', 'message'], errors),
  ];
}

// ------------------------------------------------------------------------------------------------------- the replies

const percent = (count: number, total: number): string =>
  total === 0 ? '–' : `${((100 * count) / total).toFixed(1)}%`;

/** The figures, by name, for the report and for the terminal. */
export function qualityFigures(quality: Quality): Record<string, string | false | undefined> {
  const { compared, status, refusals, json, judged, regressions, lengthRatio } = quality;
  const share = (count: number): string => `${count} (${percent(count, compared)})`;
  const isNew = regressions['new-refusal'];
  const gone = refusals.before - refusals.after + isNew;
  const hasTexts = quality.texts > 0;
  const ifJson = (count: number) => json.compared > 0 && String(count);
  const errors = judged?.errors ? ` (${errorsText(judged)})` : '';
  const { emptied: unasked } = quality.comparable;
  return {
    'replies compared': String(compared),
    identical: share(quality.identical),
    'same after normalizing': share(quality.same),
    'newly failing': share(status['newly-failing']),
    'newly succeeding': share(status['newly-succeeding']),
    'failed both times': status['both-failed'] > 0 && share(status['both-failed']),
    'no content any more': regressions['empty-reply'] > 0 && share(regressions['empty-reply']),
    'of another kind': regressions['another-kind'] > 0 && share(regressions['another-kind']),
    'mean word overlap': hasTexts && (quality.meanOverlap ?? 0).toFixed(3),
    'little in common': hasTexts && share(regressions['little-in-common']),
    'length, new to old': hasTexts && lengthRatio?.toFixed(2),
    refusals: hasTexts && `${refusals.before} before, ${refusals.after} after (${isNew} new, ${gone} gone)`,
    'JSON replies': ifJson(json.compared),
    'JSON no longer valid': ifJson(regressions['json-broken']),
    'JSON structure changed': ifJson(regressions['json-structure']),
    'JSON values changed': ifJson(json.valuesChanged),
    judged:
      judged !== undefined &&
      `${judged.better} better, ${judged.same} same, ${judged.worse} worse, ${judged.undecided} undecided, ${judged.failed} without a verdict${errors}`,
    'worse without asking (no content)': judged !== undefined && unasked > 0 && String(unasked),
    'not judged (over budget)': judged !== undefined && judged.overBudget > 0 && String(judged.overBudget),
    'got worse': share(quality.regressed),
  };
}

/** @param judgeUsd cost of the judge; `null`: its price is unknown; `undefined`: it was not asked */
export const qualityPart = (quality: Quality, judgeUsd?: number | null): Part =>
  section('Replies', facts({ ...qualityFigures(quality), judge: judgeUsd !== undefined && dollars(judgeUsd) }));

// --------------------------------------------------------------------------------------------------------- two runs

const runText = ({ run, requests, failed, cancelledOnPurpose: cancelled, target }: RunFacts): string =>
  [
    `${run}, ${requests} requests, ${failed} failed`,
    ...(cancelled > 0 ? [`${cancelled} canceled on purpose`] : []),
    ...Object.entries(target).map(([key, value]) => `${key}: ${value}`),
  ].join(', ');

/** Returns how the second run differs from the first. Leaves out statistics with too few requests, unless all have too few. */
export function comparisonPage(comparison: RunsComparison): Page {
  const { before, after, paired, errorRate, notes, quality, judgeUsd } = comparison;
  const { onlyBefore, onlyAfter } = paired;
  const all = metricRows(comparison);
  const enough = all.filter(({ difference }) => !difference.tooFew);
  const shown = enough.length > 0 ? enough : all;
  const rows = shown.map(({ metric, statistic, difference }) => {
    const row = [`${COMPARED_METRICS[metric].name} ${statistic}`, ...differenceTexts(difference)];
    const isLarger = isLargerBetter(metric);
    if (!difference.significant || isLarger === undefined) return row;
    return isLarger === difference.difference > 0 ? green(row) : red(row);
  });
  return [
    `before: ${runText(before)}`,
    `after: ${runText(after)}`,
    `in both: ${paired.requests}; newly failing ${paired.newlyFailing}, newly succeeding ${paired.newlySucceeding}`,
    onlyBefore + onlyAfter > 0 && `in one only: ${onlyBefore} before, ${onlyAfter} after`,
    ...notes,
    section(
      'Differences',
      table([...rows, ['Failed (%)', ...differenceTexts(errorRate, 100)]], ['figure', ...DIFFERENCE_COLUMNS]),
      '* the interval excludes 0; metrics are of requests that succeeded in both runs',
      shown.length < all.length && `${all.length - shown.length} more rows have too few requests: comparison.json`,
    ),
    quality && qualityPart(quality, judgeUsd),
  ];
}
