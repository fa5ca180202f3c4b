/** The HTML report of one replay. */
import { loadCharts } from '../../core/text/charts.ts';
import {
  type Column,
  escapeHtml,
  folded,
  htmlPage,
  isolated,
  section,
  table,
  tableSection,
  tiles,
} from '../../core/text/html-page.ts';
import { sum } from '../../core/values/sum.ts';
import type { CapturedComparison } from '../compare/with-captured.ts';
import { isScheduled } from '../derived-options.ts';
import { bottleneckOf, type FinishedReplay } from '../finished.ts';
import type { ExchangeError } from '../http/exchange.ts';
import type { ReportCollector, RequestRow } from '../measure/report-collector.ts';
import type { RunStats } from '../measure/run-stats.ts';
import { DISTRIBUTION_METRICS, type DistributionMetric, REPORT_METRICS } from '../metrics.ts';
import { durationSeconds } from '../results/summary.ts';
import { distributions, latencyOverTime, scheduleLag, throughput } from './charts.ts';
import { qualitySection } from './quality-sections.ts';
import { FILTER_SCRIPT, REPLIES_STYLE, regressionsSection } from './replies-section.ts';

const fixed = (value: number, digits = 1): string =>
  value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
const ms = (value: number | undefined): string => (value === undefined ? '–' : `${fixed(value)} ms`);

/** Names in place of AIPerf's, the same as on the terminal. */
const NAMES: Partial<Record<DistributionMetric, string>> = {
  effective_latency: 'Effective Latency',
  credit_to_start_latency: 'Schedule Lag',
};

const FIGURES = ['avg', 'p50', 'p90', 'p95', 'p99', 'min', 'max', 'count'] as const;

function metricsTable(stats: RunStats): string {
  const rows = REPORT_METRICS.flatMap((metric) => {
    const summary = stats.distributions.get(metric)?.summary();
    return summary ? [{ metric, summary }] : [];
  });
  type Row = (typeof rows)[number];
  const nameOf = (metric: DistributionMetric): string =>
    escapeHtml(`${NAMES[metric] ?? DISTRIBUTION_METRICS[metric].header} (${DISTRIBUTION_METRICS[metric].unit})`);
  const values = FIGURES.map(
    (key): Column<Row> => ({
      name: key === 'avg' ? 'mean' : key,
      numeric: true,
      cell: ({ summary }) => fixed(summary[key], key === 'count' ? 0 : 2),
    }),
  );
  return table<Row>([{ name: 'Metric', cell: ({ metric }) => nameOf(metric) }, ...values], rows);
}

const COLUMNS: readonly Column<RequestRow>[] = [
  { name: 'at', numeric: true, cell: ({ at }) => `${fixed(at, 2)} s` },
  { name: 'request latency', numeric: true, cell: ({ latencyMs }) => ms(latencyMs) },
  { name: 'effective latency', numeric: true, cell: ({ effectiveMs }) => ms(effectiveMs) },
  { name: 'schedule lag', numeric: true, cell: ({ lagMs }) => ms(lagMs) },
  {
    name: 'request',
    cell: ({ eventId, file, line, requestId, input, output, error }) =>
      `${isolated(eventId ?? requestId)} <span class="soft">${isolated(file)}, line ${line}</span>${
        error
          ? `<br><span class="bad">${isolated(`${error.code ?? ''} ${error.type}: ${error.message.slice(0, 300)}`.trim())}</span>`
          : ''
      }<br>${folded('input', input)}${folded('reply', output)}`,
  },
];

const ERROR_COLUMNS: readonly Column<{ error: ExchangeError; count: number }>[] = [
  { name: 'count', numeric: true, cell: ({ count }) => fixed(count, 0) },
  { name: 'code', cell: ({ error }) => String(error.code ?? '') },
  { name: 'type', cell: ({ error }) => escapeHtml(error.type) },
  { name: 'message', cell: ({ error }) => isolated(error.message.slice(0, 500)) },
];

const SKIPPED_COLUMNS: readonly Column<[string, number]>[] = [
  { name: 'reason', cell: ([reason]) => escapeHtml(reason) },
  { name: 'lines', numeric: true, cell: ([, count]) => fixed(count, 0) },
];

/**
 * Returns `report.html`, complete and self-contained.
 *
 * @param more warnings above the figures, e.g. about lost shards, in addition to those about a stop or a bottleneck
 */
export async function replayReport(
  replay: FinishedReplay,
  more: readonly string[],
  comparison: CapturedComparison | undefined,
): Promise<string> {
  await loadCharts();
  const { stats, report, skippedReasons } = replay.results;
  const scheduled = isScheduled(replay.options);
  const bottleneck = bottleneckOf(replay);
  const seconds = durationSeconds(stats);
  const rate = (value: number): string => (seconds > 0 ? fixed(value / seconds, 2) : '–');
  const latency = stats.distributions.get('request_latency');
  const effective = stats.distributions.get('effective_latency');
  const output = stats.distributions.get('output_sequence_length')?.sum;
  const skipped = sum([...skippedReasons.values()]);
  const warnings = [
    ...(replay.wasCancelled ? [`The replay was stopped: ${replay.unsent} requests were not sent.`] : []),
    ...(stats.completed === 0 ? ['These results have no requests.'] : []),
    ...(bottleneck ? [`The client was the bottleneck: ${bottleneck}.`] : []),
    ...more,
  ];
  const target = Object.entries(replay.target)
    .map(([key, value]) => `${key}: ${value}`)
    .join(', ');
  const failedShare = stats.completed === 0 ? 0 : (100 * stats.failed) / stats.completed;
  const parts = [
    `<h1>Replay ${escapeHtml(replay.run)}</h1>`,
    `<p class="soft">${escapeHtml(target)} · started ${new Date(replay.startMs).toISOString()} · ${fixed(seconds)} s</p>`,
    ...warnings.map((warning) => `<p class="warn">${escapeHtml(warning)}</p>`),
    tiles([
      ['requests completed', fixed(stats.completed, 0)],
      ['failed', `${fixed(stats.failed, 0)} (${fixed(failedShare, 2)}%)`],
      ['requests per second', rate(stats.succeeded)],
      ['request latency p50', ms(latency?.count ? latency.percentile(50) : undefined)],
      ['request latency p99', ms(latency?.count ? latency.percentile(99) : undefined)],
      ['effective latency p99', ms(effective?.count ? effective.percentile(99) : undefined)],
      ['output tokens per second', output === undefined ? undefined : rate(output)],
      [
        'met every objective',
        stats.withObjectives ? `${fixed(stats.good, 0)} of ${fixed(stats.completed, 0)}` : undefined,
      ],
      ['lines skipped', skipped > 0 ? fixed(skipped, 0) : undefined],
    ]),
    ...(stats.completed > 0 ? chartSections(stats, report, scheduled) : []),
    ...(comparison ? comparisonSections(comparison) : []),
    tableSection('Errors', ERROR_COLUMNS, stats.errorsByCount),
    tableSection(
      'Failed requests',
      COLUMNS,
      report.failed,
      `The first of each kind; ${fixed(stats.failed, 0)} failed in all.`,
    ),
    tableSection('Slowest requests', COLUMNS, report.slowest, 'By effective latency.'),
    tableSection('Skipped lines', SKIPPED_COLUMNS, [...skippedReasons], 'skipped.jsonl lists their places.'),
  ];
  const scripted = { style: REPLIES_STYLE, script: FILTER_SCRIPT };
  return htmlPage(`Replay ${replay.run}`, parts.join('\n'), scripted);
}

const comparisonSections = ({ quality, regressions }: CapturedComparison): string[] => [
  qualitySection(quality, 'Replies compared with the captured replies'),
  regressionsSection(regressions, quality.regressed),
];

/** The run over time, its distributions, and its figures. */
function chartSections(stats: RunStats, report: ReportCollector, scheduled: boolean): string[] {
  const latency = stats.distributions.get('request_latency');
  const effective = stats.distributions.get('effective_latency');
  return [
    section(
      'Latency over time',
      latencyOverTime(report, scheduled),
      `Each point is a request at the time it was sent (a sample of them in long runs); crosses are failures.${
        scheduled
          ? ' The violet line uses scheduled times: it rises when the server stalls, even if few requests are sent then.'
          : ''
      }`,
    ),
    section(
      'Latency distribution',
      distributions(
        [
          { name: 'request latency', distribution: latency },
          ...(scheduled ? [{ name: 'effective latency', distribution: effective }] : []),
        ],
        'Distribution of the latency',
      ),
      scheduled
        ? 'The effective latency counts from the scheduled time: it shows a slow server even behind a slow client or a full concurrency cap.'
        : '',
    ),
    stats.distributions.has('time_to_first_token')
      ? section(
          'Streaming',
          distributions(
            [{ name: 'time to first token', distribution: stats.distributions.get('time_to_first_token') }],
            'Distribution of the time to the first token',
          ) +
            distributions(
              [{ name: 'inter-token latency', distribution: stats.distributions.get('inter_token_latency') }],
              'Distribution of the inter-token latency',
            ),
        )
      : '',
    section('Throughput', throughput(report)),
    scheduled
      ? section(
          'Schedule lag',
          scheduleLag(report),
          'How long after its scheduled time a request was sent: the maximum of each interval.',
        )
      : '',
    section('Figures', metricsTable(stats)),
  ];
}
