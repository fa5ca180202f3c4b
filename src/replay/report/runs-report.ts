/** The HTML report that compares two runs. */
import { loadCharts } from '../../core/text/charts.ts';
import {
  type Column,
  escapeHtml,
  htmlPage,
  isolated,
  section,
  table,
  tableSection,
  tiles,
} from '../../core/text/html-page.ts';
import { type MetricRow, metricRows, type RunsComparison, type SlowedRequest } from '../compare/compare-runs.ts';
import { judgeWarning } from '../compare/judge-replies.ts';
import { COMPARED_METRICS, isLargerBetter } from '../compare/run-data.ts';
import type { GateResult } from '../gate/types.ts';
import { signed } from '../gate/words.ts';
import type { Distribution } from '../measure/distribution.ts';
import { distributions } from './charts.ts';
import { GATE_STYLE, gateSection } from './gate-section.ts';
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
  { name: 'before', numeric: true, cell: ({ difference }) => difference.before.toFixed(2) },
  { name: 'after', numeric: true, cell: ({ difference }) => difference.after.toFixed(2) },
  { name: 'difference', numeric: true, cell: (row) => colored(row, signed(row.difference.difference)) },
  {
    name: '%',
    numeric: true,
    cell: (row) =>
      row.difference.relative === null ? '' : colored(row, `${signed(row.difference.relative * 100, 1)}%`),
  },
  {
    name: '95% interval',
    numeric: true,
    cell: ({ difference: { low, high, tooFew } }) => (tooFew ? 'too few requests' : `${signed(low)} … ${signed(high)}`),
  },
];

const SLOWED_COLUMNS: readonly Column<SlowedRequest>[] = [
  { name: 'request', cell: ({ key }) => isolated(key) },
  { name: 'before (ms)', numeric: true, cell: ({ before }) => before.toFixed(1) },
  { name: 'after (ms)', numeric: true, cell: ({ after }) => after.toFixed(1) },
  { name: 'difference (ms)', numeric: true, cell: ({ before, after }) => signed(after - before, 1) },
];

interface RunsReportFacts {
  /** Absent: there are no thresholds. */
  gate?: GateResult;
  /** Latency distributions of the two runs, for the chart. */
  latencies: readonly [Distribution, Distribution];
}

/** Returns the page, complete and self-contained. */
export async function runsReport(comparison: RunsComparison, { gate, latencies }: RunsReportFacts): Promise<string> {
  await loadCharts();
  const { before, after, quality, regressions, slowed } = comparison;
  const [latencyBefore, latencyAfter] = latencies;
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
          { name: `before: ${before.run}`, distribution: latencyBefore },
          { name: `after: ${after.run}`, distribution: latencyAfter },
        ],
        'Distribution of the latency in both runs',
      ),
    ),
    differencesSection(comparison),
    failuresSection(comparison),
    ...(quality ? [qualitySection(quality, 'Replies'), regressionsSection(regressions, quality.regressed)] : []),
    tableSection('Requests that slowed down most', SLOWED_COLUMNS, slowed),
  ];
  return htmlPage(`${before.run} and ${after.run}`, parts.join('\n'), {
    style: GATE_STYLE + REPLIES_STYLE,
    script: FILTER_SCRIPT,
  });
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

function overview({ before, after, paired, metrics, requestThroughput, tokenThroughput }: RunsComparison): string {
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
    ['requests per second', change(requestThroughput, 2)],
    ['output tokens per second', change(tokenThroughput, 2)],
  ]);
}

function failuresSection({ errorRate, paired }: RunsComparison): string {
  const percent = (share: number): string => (share * 100).toFixed(2);
  const points = (share: number): string => signed(share * 100);
  return section(
    'Failures',
    `<p>${percent(errorRate.before)}% → ${percent(errorRate.after)}% of the requests; difference ${points(errorRate.difference)} points, 95% interval ${points(errorRate.low)} … ${points(errorRate.high)}. ${paired.newlyFailing} newly failing, ${paired.newlySucceeding} newly succeeding.</p>`,
  );
}
