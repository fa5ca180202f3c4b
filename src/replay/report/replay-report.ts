/** Builds the HTML report of one replay. */
import { loadCharts } from '../../core/text/charts.ts';
import { drawing, escapeHtml, folded, htmlPage, isolated, pageHtml } from '../../core/text/html-page.ts';
import { dim, type Page, type Part, red, section, sheet } from '../../core/text/page.ts';
import type { CapturedComparison } from '../compare/with-captured.ts';
import { isScheduled } from '../derived-options.ts';
import { bottleneckOf, type FinishedReplay } from '../finished.ts';
import type { ReportCollector, RequestRow } from '../measure/report-collector.ts';
import type { RunStats } from '../measure/run-stats.ts';
import type { DistributionMetric } from '../metrics.ts';
import { distributions, latencyOverTime, throughput } from './charts.ts';
import { figuresPage, qualityPart } from './replay-parts.ts';
import { REPLIES_STYLE, regressionsPart } from './replies-section.ts';

/** The times of requests, and their texts. */
const requests = (title: string, note: string, rows: readonly RequestRow[]): Part =>
  sheet(
    title,
    note,
    ['at (s)', 'request latency (ms)', 'effective latency (ms)', 'schedule lag (ms)', 'request'],
    rows.map((row) => [
      ...[row.at, row.latencyMs, row.effectiveMs, row.lagMs].map((value) => value?.toFixed(2) ?? '–'),
      drawing(requestHtml(row)),
    ]),
  );

function requestHtml({ eventId, file, line, requestId, input, output, error }: RequestRow): string {
  const said = error && `${error.code ?? ''} ${error.type}: ${error.message.slice(0, 300)}`.trim();
  const failed = said === undefined ? '' : `<br><span class="bad">${isolated(said)}</span>`;
  const place = `<span class="soft">${isolated(file)}, line ${line}</span>`;
  return `${isolated(eventId ?? requestId)} ${place}${failed}<br>${folded('input', input)}${folded('reply', output)}`;
}

/**
 * Returns `report.html`, complete and self-contained.
 *
 * @param more warnings above the figures, e.g. about lost shards, in addition to warnings about a stop or a bottleneck
 */
export async function replayReport(
  replay: FinishedReplay,
  more: readonly string[],
  comparison: CapturedComparison | undefined,
): Promise<string> {
  await loadCharts();
  const { stats, report } = replay.results;
  const bottleneck = bottleneckOf(replay);
  const warnings = [
    replay.wasCancelled && `The replay was stopped: ${replay.unsent} requests were not sent.`,
    stats.completed === 0 && 'These results have no requests.',
    bottleneck && `The client was the bottleneck: ${bottleneck}.`,
    ...more,
  ];
  const target = Object.entries(replay.target).map(([key, value]) => `${key}: ${value}`);
  const page = [
    drawing(`<h1>Replay ${escapeHtml(replay.run)}</h1>`),
    dim(`${target.join(', ')} · started ${new Date(replay.startMs).toISOString()}`),
    ...warnings.map((warning) => red(warning)),
    ...figuresPage(replay),
    ...(stats.completed > 0 ? chartSections(stats, report, isScheduled(replay.options)) : []),
    comparison && qualityPart(comparison.quality, comparison.judgeUsd),
    comparison && regressionsPart(comparison.regressions, comparison.quality.regressed),
    requests('Failed requests', `The first of each kind; ${stats.failed} failed in all.`, report.failed),
    requests('Slowest requests', 'By effective latency.', report.slowest),
  ];
  return htmlPage(`Replay ${replay.run}`, pageHtml(page), REPLIES_STYLE);
}

/** The run over time, and its distributions. */
function chartSections(stats: RunStats, report: ReportCollector, scheduled: boolean): Page {
  const named = (name: string, metric: DistributionMetric) => ({ name, distribution: stats.distributions.get(metric) });
  const stalls =
    ' The violet line uses scheduled times: it rises when the server stalls, even if few requests are sent then.';
  const points =
    'Each point is a request at the time it was sent (a sample of them in long runs); crosses are failures.';
  return [
    section(
      'Latency over time',
      dim(`${points}${scheduled ? stalls : ''}`),
      drawing(latencyOverTime(report, scheduled)),
    ),
    section(
      'Latency distribution',
      dim(
        scheduled &&
          'The effective latency counts from the scheduled time: it shows a slow server even behind a slow client or a full concurrency cap.',
      ),
      drawing(
        distributions(
          [
            named('request latency', 'request_latency'),
            ...(scheduled ? [named('effective latency', 'effective_latency')] : []),
          ],
          'Distribution of the latency',
        ),
      ),
    ),
    stats.distributions.has('time_to_first_token') &&
      section(
        'Streaming',
        drawing(
          distributions(
            [named('time to first token', 'time_to_first_token'), named('inter-token latency', 'inter_token_latency')],
            'Distribution of the times of tokens',
          ),
        ),
      ),
    section('Throughput', drawing(throughput(report))),
  ];
}
