/** A finished run as another run is compared with it. */
import { createReadStream, existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { PermanentError } from '../../common/errors.ts';
import { FILES } from '../results/result-set.ts';
import { REPLIES_FILE, requestKey } from './replies-file.ts';
import { type CapturedComparison, readCapturedComparison } from './with-captured.ts';

interface ComparedDefinition {
  name: string;
  /** `undefined`: neither more nor less is better. */
  largerIsBetter?: boolean;
}

/** Metrics of single requests that are compared. */
export const COMPARED_METRICS = {
  request_latency: { name: 'Latency from sending (ms)', largerIsBetter: false },
  effective_latency: { name: 'Latency from the scheduled moment (ms)', largerIsBetter: false },
  time_to_first_token: { name: 'Time to first token (ms)', largerIsBetter: false },
  inter_token_latency: { name: 'Inter-token latency (ms)', largerIsBetter: false },
  output_token_throughput_per_user: { name: 'Output tokens per second and user', largerIsBetter: true },
  output_sequence_length: { name: 'Output length (tokens)' },
} as const satisfies Record<string, ComparedDefinition>;
export type ComparedMetric = keyof typeof COMPARED_METRICS;
/** `undefined`: neither direction is. */
export const isLargerBetter = (metric: ComparedMetric): boolean | undefined =>
  (COMPARED_METRICS[metric] as ComparedDefinition).largerIsBetter;
export const METRIC_TAGS = Object.keys(COMPARED_METRICS) as ComparedMetric[];

export interface RequestResult {
  ok: boolean;
  /** In the order of `METRIC_TAGS`; NaN where the request has none. */
  values: Float64Array;
}

export interface RunData {
  directory: string;
  run: string;
  target: Record<string, string>;
  requests: Map<string, RequestResult>;
  failed: number;
  wasCancelled: boolean;
  bottleneck?: string;
  /** Requests a second and output tokens a second over the run. */
  requestThroughput?: number;
  tokenThroughput?: number;
  captured?: CapturedComparison;
  /** Its replies were kept. */
  hasReplies: boolean;
}

interface RecordJson {
  metadata: {
    event_id?: string;
    conversation_id?: string;
    s3_key?: string;
    line?: number;
    pass?: number;
    turn_index?: number;
    x_request_id?: string;
    scheduled_ns?: number;
    credit_issued_ns?: number;
    request_end_ns: number;
  };
  metrics: Record<string, { value?: number } | undefined>;
  error?: unknown;
}

const NS_PER_MS = 1e6;

function resultOf({ metadata, metrics, error }: RecordJson): RequestResult {
  const scheduled = metadata.scheduled_ns ?? metadata.credit_issued_ns;
  const values = METRIC_TAGS.map((tag) => {
    if (tag === 'effective_latency') {
      // Nanoseconds of today lose their last digits as a number: a quarter of a microsecond.
      return error || scheduled === undefined ? Number.NaN : (metadata.request_end_ns - scheduled) / NS_PER_MS;
    }
    return metrics[tag]?.value ?? Number.NaN;
  });
  return { ok: error === undefined || error === null, values: Float64Array.from(values) };
}

/** Runs of other tools have no captured place: their conversation and turn name the request. */
const keyOf = ({ metadata }: RecordJson): string =>
  metadata.s3_key !== undefined && metadata.line !== undefined
    ? requestKey(metadata.event_id, metadata.s3_key, metadata.line, metadata.pass ?? 0)
    : `${metadata.conversation_id ?? metadata.x_request_id}:${metadata.turn_index ?? 0}`;

async function readJson(path: string): Promise<Record<string, unknown> | undefined> {
  return existsSync(path) ? (JSON.parse(await readFile(path, 'utf8')) as Record<string, unknown>) : undefined;
}

const averageOf = (summary: Record<string, unknown> | undefined, tag: string): number | undefined =>
  (summary?.[tag] as { avg?: number } | undefined)?.avg;

/** @throws PermanentError `NotAReplay` */
export async function readRun(directory: string): Promise<RunData> {
  const records = join(directory, FILES.records);
  if (!existsSync(records)) {
    throw new PermanentError('NotAReplay', 'That is no directory of a replay’s results', {
      got: directory,
      expected: `a directory with ${FILES.records}`,
    });
  }
  const requests = new Map<string, RequestResult>();
  let failed = 0;
  let line = 0;
  for await (const text of createInterface({ input: createReadStream(records), crlfDelay: Number.POSITIVE_INFINITY })) {
    line++;
    if (text.trim() === '') continue;
    let record: RecordJson;
    try {
      record = JSON.parse(text) as RecordJson;
    } catch (error) {
      throw new PermanentError(
        'NotAReplay',
        'A line of the results is not JSON',
        { where: `${records}, line ${line}` },
        error,
      );
    }
    const result = resultOf(record);
    if (!result.ok) failed++;
    requests.set(keyOf(record), result);
  }
  const own = await readJson(join(directory, FILES.replay));
  const summary = await readJson(join(directory, FILES.summaryJson));
  const captured = await readCapturedComparison(directory);
  const bottleneck = own?.client_bottleneck;
  return {
    directory,
    run: String(own?.run ?? summary?.benchmark_id ?? basename(directory)),
    target: (own?.target ?? {}) as Record<string, string>,
    requests,
    failed,
    wasCancelled: summary?.was_cancelled === true,
    ...(typeof bottleneck === 'string' ? { bottleneck } : {}),
    requestThroughput: averageOf(summary, 'request_throughput'),
    tokenThroughput: averageOf(summary, 'output_token_throughput'),
    ...(captured ? { captured } : {}),
    hasReplies: existsSync(join(directory, REPLIES_FILE)),
  };
}
