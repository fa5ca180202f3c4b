/** Reads the results of a finished run for a comparison with another run. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { isObject } from '../../captures/json.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import metrics from '../metrics.json' with { type: 'json' };
import { FILES } from '../results/result-set.ts';
import { jsonLines } from './json-lines.ts';
import { REPLIES_FILE } from './replies-file.ts';
import { type Outcome, RequestTable } from './request-table.ts';

interface ComparedDefinition {
  name: string;
  /** `undefined`: neither direction is better. */
  largerIsBetter?: boolean;
}

/** The per-request metrics that are compared. */
export const COMPARED_METRICS = metrics.compared;
export type ComparedMetric = keyof typeof COMPARED_METRICS;
/** Whether larger values are better. `undefined` if neither direction is better. */
export const isLargerBetter = (metric: ComparedMetric): boolean | undefined =>
  (COMPARED_METRICS[metric] as ComparedDefinition).largerIsBetter;
export const METRIC_TAGS = Object.keys(COMPARED_METRICS) as ComparedMetric[];

const monitoringRunSchema = z.object({ name: z.string(), arn: z.string(), verdicts: z.string() });
/** As named in `replay.json`. `verdicts`: the S3 addresses of the run's summary and of the summaries of its retries. */
export type MonitoringRun = z.infer<typeof monitoringRunSchema>;

/** The options that differ between two runs, each with both values. */
export function differingOptions(before: RunData['options'], after: RunData['options']): string[] {
  const given = (options: RunData['options'], name: string): string => JSON.stringify(options[name]) ?? 'not given';
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => given(before, name) !== given(after, name))
    .map((name) => `${name} ${given(before, name)} and ${given(after, name)}`);
}

/** The fields of a record that a comparison needs. */
const recordSchema = z.object({
  metadata: z.object({
    event_id: z.string().optional(),
    s3_key: z.string(),
    line: z.number(),
    pass: z.number(),
    scheduled_ns: z.number(),
    request_start_ns: z.number(),
    request_end_ns: z.number(),
    first_token_ns: z.number().optional(),
    cancelled_on_purpose: z.boolean().optional(),
  }),
  metrics: z.record(z.string(), z.object({ value: z.unknown() })),
  error: z.unknown().optional(),
});
type RecordJson = z.infer<typeof recordSchema>;

const NS_PER_MS = 1e6;

/**
 * Returns the metrics of a request; NaN for missing metrics. The latencies of a failed request are the times until its
 * failure.
 */
function valuesOf({ metadata, metrics, error }: RecordJson): number[] {
  const { scheduled_ns: scheduled, request_start_ns: sent, request_end_ns: ended, first_token_ns: first } = metadata;
  // A number has room for a quarter of a microsecond at today's epoch nanoseconds.
  const between = (from: number, to = Number.NaN): number => (to - from) / NS_PER_MS;
  return METRIC_TAGS.map((tag) => {
    if (tag === 'effective_latency') return between(scheduled, ended);
    const value = metrics[tag]?.value;
    if (typeof value === 'number') return value;
    if (!error) return Number.NaN;
    if (tag === 'time_to_first_token') return between(sent, first);
    return tag === 'request_latency' ? between(sent, ended) : Number.NaN;
  });
}

const outcomeOf = ({ metadata, error }: RecordJson): Outcome =>
  error === undefined ? 'ok' : metadata.cancelled_on_purpose ? 'cancelled' : 'failed';

/** Reads a file of the run; `undefined` if it is missing. */
export async function readJson(path: string): Promise<Record<string, unknown> | undefined> {
  if (!existsSync(path)) return undefined;
  const value = jsonIn(await readFile(path, 'utf8'));
  if (isObject(value)) return value;
  throw new PermanentError('NotAReplay', 'A file of the results is not a JSON object', { where: path });
}

async function readRequests(path: string) {
  const requests = new RequestTable(METRIC_TAGS.length);
  let failed = 0;
  let cancelledOnPurpose = 0;
  const cutLines: string[] = [];
  for await (const { value, line } of jsonLines(path, (where) => cutLines.push(where))) {
    const record = recordSchema.safeParse(value);
    if (!record.success) {
      const facts = { got: z.prettifyError(record.error).replace(/\s+/g, ' '), where: `${path}, line ${line}` };
      throw new PermanentError('NotAReplay', 'A line of the results is not the record of a request', facts);
    }
    const { data } = record;
    const outcome = outcomeOf(data);
    if (outcome === 'failed') failed++;
    if (outcome === 'cancelled') cancelledOnPurpose++;
    const { event_id: eventId, s3_key: file, line: captured, pass, request_start_ns: sentAt } = data.metadata;
    // Records are in the order in which requests ended.
    requests.add({ eventId, file, line: captured, pass }, outcome, valuesOf(data), sentAt);
  }
  return {
    requests,
    /** Number of failed requests, without those canceled on purpose. */
    failed,
    cancelledOnPurpose,
    /** Places of truncated last lines, which are left out. */
    cutLines,
  };
}

/**
 * Reads the results of a replay for a comparison.
 *
 * @param location the location that the files were copied from, if not the directory itself
 * @throws PermanentError `NotAReplay`
 *
 * @example
 *     const { comparison } = await compareRuns(await readRun('before'), await readRun('after'));
 */
export async function readRun(directory: string, location = directory) {
  const records = join(directory, FILES.records);
  if (!existsSync(records)) {
    throw new PermanentError('NotAReplay', 'The location has no results of a replay', {
      got: location,
      expected: `a directory with ${FILES.records}, or s3://bucket/replays/<execution> of a replay that has sent requests`,
    });
  }
  const own = await readJson(join(directory, FILES.replay));
  const bottleneck = own?.client_bottleneck;
  return {
    /** The directory with the files. */
    directory,
    /** The location that the user named. */
    location,
    run: String(own?.run ?? basename(location)),
    target: (own?.target ?? {}) as Record<string, string>,
    ...(await readRequests(records)),
    /** The options of the replay, if known. */
    options: (own?.options ?? {}) as Record<string, unknown>,
    wasCancelled: own?.was_cancelled === true,
    ...(typeof bottleneck === 'string' ? { bottleneck } : {}),
    // The monitoring run that judges the replies, for a cloud replay with a judge.
    ...(own?.judge ? { monitoringRun: monitoringRunSchema.safeParse(own.monitoring_run).data } : {}),
    /** Whether the run kept its replies. */
    hasReplies: existsSync(join(directory, REPLIES_FILE)),
  };
}

export type RunData = Awaited<ReturnType<typeof readRun>>;
