/** The report of two runs beside each other. */
import { loadCharts } from '../../shared/charts.ts';
import { type Column, escapeHtml, htmlPage, isolated, section, table, tiles } from '../../shared/html-page.ts';
import { type Difference, STATISTICS, type Statistic } from '../compare/bootstrap.ts';
import type { RunsComparison } from '../compare/compare-runs.ts';
import { COMPARED_METRICS, type ComparedMetric, isLargerBetter } from '../compare/run-data.ts';
import type { Crossing } from '../compare/thresholds.ts';
import type { Distribution } from '../measure/distribution.ts';
import { distributions } from './charts.ts';
import { qualitySection, regressionsSection } from './quality-sections.ts';

interface Row {
  metric: ComparedMetric;
  statistic: Statistic;
  difference: Difference;
}

const signed = (value: number, digits = 2): string => `${value >= 0 ? '+' : ''}${value.toFixed(digits)}`;

/** Whether a change is for the worse; `undefined` where it may be chance. */
export function isWorse({ metric, difference }: Row): boolean | undefined {
  const larger = isLargerBetter(metric);
  if (!difference.significant || larger === undefined) return undefined;
  return larger ? difference.difference < 0 : difference.difference > 0;
}

const mark = (row: Row, text: string): string => {
  const worse = isWorse(row);
  return worse === undefined ? escapeHtml(text) : `<span class="${worse ? 'bad' : 'good'}">${escapeHtml(text)}</span>`;
};

const COLUMNS: readonly Column<Row>[] = [
  {
    name: 'Metric',
    cell: ({ metric, statistic }) =>
      statistic === 'mean' ? `<b>${escapeHtml(COMPARED_METRICS[metric].name)}</b>, mean` : statistic,
  },
  { name: 'before', numeric: true, cell: ({ difference }) => difference.before.toFixed(2) },
  { name: 'after', numeric: true, cell: ({ difference }) => difference.after.toFixed(2) },
  { name: 'difference', numeric: true, cell: (row) => mark(row, signed(row.difference.difference)) },
  {
    name: '%',
    numeric: true,
    cell: (row) => (row.difference.relative === null ? '' : mark(row, `${signed(row.difference.relative * 100, 1)}%`)),
  },
  {
    name: '95% interval',
    numeric: true,
    cell: ({ difference: { low, high, tooFew } }) => (tooFew ? 'too few requests' : `${signed(low)} … ${signed(high)}`),
  },
];

export function metricRows(comparison: RunsComparison): Row[] {
  return (Object.keys(COMPARED_METRICS) as ComparedMetric[]).flatMap((metric) => {
    const found = comparison.metrics[metric];
    return found ? STATISTICS.map((statistic) => ({ metric, statistic, difference: found[statistic] })) : [];
  });
}

const facts = ({ run, target, directory }: RunsComparison['before']): string =>
  escapeHtml(
    `${run} (${
      Object.entries(target)
        .map(([key, value]) => `${key}: ${value}`)
        .join(', ') || directory
    })`,
  );

export interface RunsReportFacts {
  crossings: readonly Crossing[];
  gated: boolean;
  /** Latency distributions of the two runs, for the chart. */
  latencies: readonly [Distribution, Distribution];
}

export async function runsReport(
  comparison: RunsComparison,
  { crossings, gated, latencies }: RunsReportFacts,
): Promise<string> {
  await loadCharts();
  const { before, after, paired, errorRate, quality } = comparison;
  const latency = comparison.metrics.request_latency?.p50;
  const pair = (values: [number, number] | undefined): string =>
    values ? `${values[0].toFixed(2)} → ${values[1].toFixed(2)}` : '–';
  const parts = [
    '<h1>Comparison of two replays</h1>',
    `<p>before: ${facts(before)}<br>after: ${facts(after)}</p>`,
    ...crossings.map(
      ({ threshold, got }) =>
        `<p class="warn">Threshold crossed: ${escapeHtml(threshold)}; got: ${escapeHtml(got)}</p>`,
    ),
    ...(gated && crossings.length === 0 ? ['<p class="good">No threshold is crossed.</p>'] : []),
    ...(comparison.judgeFailure
      ? [`<p class="warn">Not all pairs are judged: ${escapeHtml(comparison.judgeFailure.message)}</p>`]
      : []),
    ...comparison.notes.map((note) => `<p class="soft">${escapeHtml(note)}</p>`),
    tiles([
      ['requests in both', String(paired.requests)],
      ['latency p50 (ms)', latency ? `${latency.before.toFixed(1)} → ${latency.after.toFixed(1)}` : '–'],
      ['failed', `${before.failed} → ${after.failed}`],
      ...(before.cancelledOnPurpose + after.cancelledOnPurpose > 0
        ? [['cancelled on purpose', `${before.cancelledOnPurpose} → ${after.cancelledOnPurpose}`] as [string, string]]
        : []),
      ['newly failing', String(paired.newlyFailing)],
      ...(paired.onlyBefore + paired.onlyAfter > 0
        ? [['only before, only after', `${paired.onlyBefore}, ${paired.onlyAfter}`] as [string, string]]
        : []),
      ['requests per second', pair(comparison.requestThroughput)],
      ['output tokens per second', pair(comparison.tokenThroughput)],
    ]),
    section(
      'Latency distribution',
      distributions(
        [
          { name: `before: ${before.run}`, distribution: latencies[0] },
          { name: `after: ${after.run}`, distribution: latencies[1] },
        ],
        'Distribution of the latency in both runs',
      ),
    ),
    section(
      'Differences',
      table(COLUMNS, metricRows(comparison)),
      'Over the requests that succeeded in both runs. Intervals are from a paired bootstrap; a difference whose interval contains 0 may be chance and is not coloured.',
    ),
    section(
      'Failures',
      `<p>${(errorRate.before * 100).toFixed(2)}% → ${(errorRate.after * 100).toFixed(2)}% of the requests; difference ${signed(errorRate.difference * 100)} points, 95% interval ${signed(errorRate.low * 100)} … ${signed(errorRate.high * 100)}. ${paired.newlyFailing} newly failing, ${paired.newlySucceeding} newly succeeding.</p>`,
    ),
    ...(quality
      ? [qualitySection(quality, 'Replies'), regressionsSection(comparison.regressions, quality.regressed)]
      : []),
    ...(comparison.slowed.length > 0
      ? [
          section(
            'Requests that got slowest',
            table<RunsComparison['slowed'][number]>(
              [
                { name: 'request', cell: ({ key }) => isolated(key) },
                { name: 'before (ms)', numeric: true, cell: (row) => row.before.toFixed(1) },
                { name: 'after (ms)', numeric: true, cell: (row) => row.after.toFixed(1) },
                { name: 'difference (ms)', numeric: true, cell: (row) => signed(row.after - row.before, 1) },
              ],
              comparison.slowed,
            ),
          ),
        ]
      : []),
  ];
  return htmlPage(`${before.run} and ${after.run}`, parts.join('\n'));
}
