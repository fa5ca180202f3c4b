/**
 * Asks CloudWatch what the servers of an endpoint measure themselves, where SageMaker AI's detailed observability
 * collects it: for vLLM and SGLang. AWS lists the metrics as "SageMaker AI Insights".
 */
import { DAY_MS } from '../captures/files/capture-path.ts';
import type { AwsClient } from '../core/aws/aws-post.ts';
import { promQuery } from '../core/aws/promql.ts';
import { number } from '../core/text/figure-text.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import METRICS from './endpoint-metrics.json' with { type: 'json' };

/** The figures of each variant, in words. The variant is empty if the figures are of none. */
export type EndpointLoad = ReadonlyMap<string, string>;

/** CloudWatch's limit for a range. */
const MAX_RANGE_MS = 7 * DAY_MS;
const VARIANT = 'aws.sagemaker.variant.name';
const BY = `by ("${VARIANT}")`;

const quantileMs = (share: number) => (series: string) =>
  `1000 * histogram_quantile(${share}, sum ${BY} (rate(${series})))`;
/** The figures, each with the metrics of both servers and the expression about one of them. */
const FIGURES = [
  ['first token p50 in ms', METRICS.firstToken, quantileMs(0.5)],
  ['p95', METRICS.firstToken, quantileMs(0.95)],
  ['output tokens a second', METRICS.outputTokens, (series: string) => `sum ${BY} (rate(${series}))`],
  ['most requests in a queue', METRICS.waiting, (series: string) => `max ${BY} (max_over_time(${series}))`],
] as const;

/**
 * Returns the figures of each variant that has some, at most for the last seven days of the window.
 *
 * @throws Error with CloudWatch's error type as its name
 */
export async function askLoad(client: AwsClient, endpoint: string, window: TimeWindow): Promise<EndpointLoad> {
  const { fromMs, toMs } = window;
  const range = `${Math.round(Math.min(toMs - fromMs, MAX_RANGE_MS) / 1000)}s`;
  const seriesOf = (metric: string) => `{"${metric}","aws.sagemaker.endpoint.name"="${endpoint}"}[${range}]`;
  const ask = async ([name, metrics, of]: (typeof FIGURES)[number]) => {
    const query = metrics.map((metric) => of(seriesOf(metric))).join(' or ');
    return { name, values: await promQuery(client, query, toMs, VARIANT) };
  };
  const figures = await Promise.all(FIGURES.map(ask));
  const textOf = (value: number | undefined) => (value === undefined ? 'not measured' : number(value));
  const saysOf = (variant: string) =>
    figures.map(({ name, values }) => `${name} ${textOf(values.get(variant))}`).join(', ');
  const variants = new Set(figures.flatMap(({ values }) => [...values.keys()]));
  return new Map([...variants].toSorted().map((variant) => [variant, saysOf(variant)]));
}
