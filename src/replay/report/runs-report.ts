/** The HTML report that compares two runs. */

import { loadCharts } from '../../core/text/charts.ts';
import { type Column, escapeHtml, htmlPage, section, table, tiles } from '../../core/text/html-page.ts';
import { type MetricRow, metricRows, type RunsComparison } from '../compare/compare-runs.ts';
import { judgeWarning } from '../compare/judge-replies.ts';
import { COMPARED_METRICS, isLargerBetter, METRIC_TAGS, type RunData } from '../compare/run-data.ts';
import {
  contentText,
  DIFFERENCE_COLUMNS,
  differenceTexts,
  factsOf,
  OUTCOME_TEXTS,
  observedText,
  outcomeText,
} from '../gate/texts.ts';
import type { GateOutcome, GateResult, ThresholdResult } from '../gate/types.ts';
import { Distribution } from '../measure/distribution.ts';
import { distributions } from './charts.ts';
import { qualitySection } from './quality-sections.ts';
import { FILTER_SCRIPT, REPLIES_STYLE, regressionsSection } from './replies-section.ts';

/** Colors a significant change of a metric for which one direction is better. */
function colored({ metric, difference }: MetricRow, text: string): string {
  const larger = isLargerBetter(metric);
  if (!difference.significant || larger === undefined) return escapeHtml(text);
  const isBetter = larger === difference.difference > 0;
  return `<span class="${isBetter ? 'good' : 'bad'}">${escapeHtml(text)}</span>`;
}

const METRIC_COLUMNS: readonly Column<MetricRow>[] = [
  {
    name: 'Metric',
    cell: ({ metric, statistic }) => `<b>${escapeHtml(COMPARED_METRICS[metric].name)}</b>, ${statistic}`,
  },
  ...DIFFERENCE_COLUMNS.map((name, i) => ({
    name,
    numeric: true,
    cell: (row: MetricRow): string => {
      const text = differenceTexts(row.difference)[i] ?? '';
      return name === 'change' || name === '%' ? colored(row, text) : escapeHtml(text);
    },
  })),
];

/** Returns the page, complete and self-contained. @param gate absent if there are no thresholds */
export async function runsReport(
  comparison: RunsComparison,
  gate: GateResult | undefined,
  runs: readonly [before: RunData, after: RunData],
): Promise<string> {
  await loadCharts();
  const { before, after, quality, regressions } = comparison;
  const parts = [
    '<h1>Comparison of two replays</h1>',
    ...(gate ? [gateSection(gate)] : []),
    `<p>before: ${runLine(before)}<br>after: ${runLine(after)}</p>`,
    ...noteLines(comparison),
    overview(comparison),
    section(
      'Latency distribution',
      distributions(
        [
          { name: `before: ${before.run}`, distribution: latencies(runs[0]) },
          { name: `after: ${after.run}`, distribution: latencies(runs[1]) },
        ],
        'Distribution of the latency in both runs',
      ),
    ),
    differencesSection(comparison),
    failuresSection(comparison),
    ...(quality ? [qualitySection(quality, 'Replies'), regressionsSection(regressions, quality.regressed)] : []),
  ];
  return htmlPage(`${before.run} and ${after.run}`, parts.join('\n'), {
    style: GATE_STYLE + REPLIES_STYLE,
    script: FILTER_SCRIPT,
  });
}

function latencies(run: RunData): Distribution {
  const distribution = new Distribution(1000);
  for (const value of run.requests.column(METRIC_TAGS.indexOf('request_latency'))) distribution.add(value);
  return distribution;
}

/** Statistics that the requests are too few for are folded away: their differences say nothing. */
function differencesSection(comparison: RunsComparison): string {
  const rows = metricRows(comparison);
  if (rows.length === 0) return '';
  const [known, tooFew] = [false, true].map((few) =>
    rows.filter(({ difference }) => (difference.tooFew ?? false) === few),
  );
  const rest = tooFew?.length
    ? `<details class="block"><summary>${tooFew.length} with too few requests for an interval</summary>${table(METRIC_COLUMNS, tooFew)}</details>`
    : '';
  return section(
    'Differences',
    (known?.length ? table(METRIC_COLUMNS, known) : '') + rest,
    'Over the requests that succeeded in both runs. A difference whose interval contains 0 may be chance and is not colored.',
  );
}

const runLine = ({ run, target, directory }: RunsComparison['before']): string => {
  const pairs = Object.entries(target).map(([key, value]) => `${key}: ${value}`);
  return escapeHtml(`${run} (${pairs.join(', ') || directory})`);
};

/** A failure of the judge, and notes. */
const noteLines = ({ judgeFailure, notes }: RunsComparison): string[] => {
  const line = (style: string, text: string): string => `<p class="${style}">${escapeHtml(text)}</p>`;
  return [
    ...(judgeFailure ? [line('warn', judgeWarning(judgeFailure))] : []),
    ...notes.map((note) => line('soft', note)),
  ];
};

function overview({ before, after, paired, metrics }: RunsComparison): string {
  const change = (values: readonly [number, number] | undefined, digits: number): string =>
    values ? values.map((value) => value.toFixed(digits)).join(' → ') : '–';
  const p50 = metrics.request_latency?.p50;
  const canceled = [before.cancelledOnPurpose, after.cancelledOnPurpose] as const;
  const { onlyBefore, onlyAfter } = paired;
  return tiles([
    ['requests in both', String(paired.requests)],
    ['latency p50 (ms)', change(p50 && [p50.before, p50.after], 1)],
    ['failed', change([before.failed, after.failed], 0)],
    ['canceled on purpose', canceled.some((count) => count > 0) ? change(canceled, 0) : undefined],
    ['newly failing', String(paired.newlyFailing)],
    ['only before, only after', onlyBefore + onlyAfter > 0 ? `${onlyBefore}, ${onlyAfter}` : undefined],
  ]);
}

function failuresSection({ errorRate, paired }: RunsComparison): string {
  const [before, after, change, , interval] = differenceTexts(errorRate, 100);
  return section(
    'Failures',
    `<p>${before}% → ${after}% of the requests; difference ${change} points, 95% interval ${interval}. ${paired.newlyFailing} newly failing, ${paired.newlySucceeding} newly succeeding.</p>`,
  );
}

// ------------------------------------------------------------------------------------------------ the release gate
// Its outcomes, and the intervals as a forest plot.

const STYLES = { passed: 'good', failed: 'bad', 'cannot-tell': 'unsure' } as const satisfies Record<
  GateOutcome,
  string
>;

const WIDTH = 260;
const HEIGHT = 22;
const MIDDLE = HEIGHT / 2;
/** The plot's range, in multiples of what is allowed. Intervals that go further end in an arrow. */
const FROM = -1.5;
const TO = 3.5;

const x = (times: number): number => ((Math.min(TO, Math.max(FROM, times)) - FROM) / (TO - FROM)) * WIDTH;

/** The value in multiples of what is allowed. A bound of 0 is plotted on a scale on which 1% is the unit. */
const timesAllowed = (value: number, bound: number): number => value / (bound || 1);

/** One row of the forest plot: the interval, the estimate, and dashed lines at "no change" and at what is allowed. */
function plot({ worse, lower, upper, bound, outcome, threshold }: ThresholdResult): string {
  const edge = (times: number, name: string): string =>
    `<line class="${name}" x1="${x(times)}" x2="${x(times)}" y1="0" y2="${HEIGHT}"/>`;
  const lines = edge(0, 'zero') + edge(bound === 0 ? 0 : 1, 'allowed');
  const label = escapeHtml(`${threshold}: ${OUTCOME_TEXTS[outcome]}`);
  const open = `<svg class="forest ${STYLES[outcome]}" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">${lines}`;
  if (worse === null) return `${open}</svg>`;
  const low = lower === null ? Number.NEGATIVE_INFINITY : timesAllowed(lower, bound);
  const high = upper === null ? Number.POSITIVE_INFINITY : timesAllowed(upper, bound);
  const arrow = (at: number, towards: number): string =>
    `<path d="M${at + towards * 6} ${MIDDLE - 4}L${at} ${MIDDLE}L${at + towards * 6} ${MIDDLE + 4}"/>`;
  const whisker = `<line x1="${x(low)}" x2="${x(high)}" y1="${MIDDLE}" y2="${MIDDLE}"/>`;
  const arrows = (low < FROM ? arrow(0, 1) : '') + (high > TO ? arrow(WIDTH, -1) : '');
  return `${open}${whisker}${arrows}<circle cx="${x(timesAllowed(worse, bound))}" cy="${MIDDLE}" r="4"/></svg>`;
}

const COLUMNS: readonly Column<ThresholdResult>[] = [
  { name: 'outcome', cell: (one) => `<b class="${STYLES[one.outcome]}">${outcomeText(one)}</b>` },
  {
    name: 'threshold',
    cell: (one) =>
      `<code>${escapeHtml(one.threshold)}</code><br><span class="soft">${escapeHtml(factsOf(one).why)}</span>`,
  },
  { name: 'better ← no change ┊ allowed → worse', cell: plot },
  {
    name: 'worse by (at least … at most)',
    numeric: true,
    cell: (one) => {
      const { worse, interval } = factsOf(one);
      return `${escapeHtml(worse)}<br><span class="soft">${escapeHtml(interval)}</span>`;
    },
  },
  { name: 'allowed', numeric: true, cell: (one) => escapeHtml(factsOf(one).allowed) },
  { name: 'requests', numeric: true, cell: (one) => escapeHtml(factsOf(one).requests) },
];

/** Failed thresholds first: they are what a reader looks for. */
const ORDER: readonly GateOutcome[] = ['failed', 'cannot-tell', 'passed'];

const GATE_STYLE = `
.unsure { color: var(--unsure); } :root { --unsure: #8a5a00; } @media (prefers-color-scheme: dark) { :root { --unsure: #e8b04a; } }
td:not(.n):has(> b) { min-width: 90px; }
.verdict { font-size: 20px; font-weight: 600; margin: 12px 0 4px; padding: 10px 14px; border: 2px solid currentColor; border-radius: 8px; }
svg.forest { width: ${WIDTH}px; min-width: ${WIDTH}px; height: ${HEIGHT}px; fill: currentColor; stroke: currentColor; stroke-width: 2; }
svg.forest path { fill: none; } svg.forest circle { stroke: none; }
svg.forest .zero, svg.forest .allowed { stroke: var(--soft); stroke-width: 1; } svg.forest .allowed { stroke: var(--ink); stroke-dasharray: 3 2; }
`;

/** The outcome of the gate, and a row for each threshold. */
export function gateSection({ outcome, thresholds, observed, content }: GateResult): string {
  const counts = ORDER.map((one) => [one, thresholds.filter((result) => result.outcome === one).length] as const)
    .filter(([, count]) => count > 0)
    .map(([one, count]) => `${count} ${OUTCOME_TEXTS[one]}`);
  const rows = [...thresholds].sort((a, b) => ORDER.indexOf(a.outcome) - ORDER.indexOf(b.outcome));
  const lines = [...observed.map(observedText), contentText(content)];
  const note =
    'Each line is the interval of how much worse the second run is, from the end of one one-sided 95% interval to that of the other, in multiples of what is allowed. A threshold passes if the whole line is left of the dashed mark, and fails if it is right of it.';
  return `<p class="verdict ${STYLES[outcome]}">Gate: ${OUTCOME_TEXTS[outcome]}<br><small>${counts.join(', ')}</small></p>${section('Thresholds', table(COLUMNS, rows), note)}<p>${lines.map(escapeHtml).join('<br>')}</p>`;
}
