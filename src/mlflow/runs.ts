/** A run in MLflow over REST: made, filled with metrics, parameters and files, and ended. */
import type { S3Client } from '@aws-sdk/client-s3';
import * as z from 'zod';
import { withRetries } from '../shared/retry.ts';
import { putToS3 } from './artifact-store.ts';
import { MlflowRefusedError } from './errors.ts';
import type { MlflowRest } from './rest.ts';

const runSchema = z.object({
  info: z.object({ run_id: z.string(), artifact_uri: z.string(), status: z.string() }),
  data: z.object({ tags: z.array(z.object({ key: z.string(), value: z.string() })).default([]) }).default({ tags: [] }),
});
const runReply = z.object({ run: runSchema });
const searchReply = z.object({ runs: z.array(runSchema).default([]) });
const anyReply = z.unknown();

/** MLflow's bounds of one log-batch request. */
const METRICS_A_BATCH = 1000;
const PARAMS_A_BATCH = 100;
const MAX_PARAM_CHARS = 6000;
/** A larger file takes minutes and the server's memory; what is left out is said. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;
/** Why a run is not what it should be, for whoever finds it in MLflow. */
const FAILURE_TAG = 'replay_error';
/** MLflow takes 5,000 characters, servers of some years ago as many. */
const MAX_TAG_CHARS = 5000;
/** Bound of one link request. */
const LINKS_A_REQUEST = 100;

export interface RunContent {
  name: string;
  startMs: number;
  endMs: number;
  status: 'FINISHED' | 'FAILED' | 'KILLED';
  /** When the figures were put together, epoch ms: MLflow shows the newest of several values. */
  atMs: number;
  metrics: Record<string, number>;
  params: Record<string, string>;
  tags: Record<string, string>;
}

export interface MlflowRun {
  runId: string;
  artifactUri: string;
  /** MLflow's own, such as `RUNNING`. */
  status: string;
}

const pairs = (values: Record<string, string>): { key: string; value: string }[] =>
  Object.entries(values).map(([key, value]) => ({ key, value }));

type NewRun = Pick<RunContent, 'name' | 'startMs' | 'tags'>;

const runOf = ({ info }: z.infer<typeof runSchema>): MlflowRun => ({
  runId: info.run_id,
  artifactUri: info.artifact_uri,
  status: info.status,
});

/** @param tags their values hold no double quote */
const searchOf = (experimentId: string, tags: Record<string, string>) =>
  ({
    method: 'POST',
    path: '/api/2.0/mlflow/runs/search',
    json: {
      experiment_ids: [experimentId],
      filter: Object.entries(tags)
        .map(([key, value]) => `tags.\`${key}\` = "${value}"`)
        .join(' and '),
      max_results: 1,
      order_by: ['attributes.start_time ASC'],
    },
  }) as const;

/** Once, not repeated: a run that was made twice would be two runs. */
export async function createRun(
  rest: MlflowRest,
  experimentId: string,
  { name, startMs, tags }: NewRun,
): Promise<MlflowRun> {
  const json = { experiment_id: experimentId, run_name: name, start_time: Math.round(startMs), tags: pairs(tags) };
  const { run } = await rest.once({ method: 'POST', path: '/api/2.0/mlflow/runs/create', json }, runReply);
  return runOf(run);
}

/**
 * The run that carries all of these tags, made if there is none: whoever dies after making it finds it the next time. One
 * that an attempt before has ended goes on.
 *
 * @param tags their values hold no double quote
 */
export async function findOrCreateRun(rest: MlflowRest, experimentId: string, run: NewRun): Promise<MlflowRun> {
  const search = searchOf(experimentId, run.tags);
  // After an attempt of which nothing is known it is looked for again, before it is made again.
  return withRetries(rest.retry, async () => {
    const found = (await rest.once(search, searchReply)).runs[0];
    if (!found) return createRun(rest, experimentId, run);
    if (found.info.status !== 'RUNNING') {
      const json = { run_id: found.info.run_id, status: 'RUNNING' };
      await rest.once({ method: 'POST', path: '/api/2.0/mlflow/runs/update', json }, anyReply);
    }
    return runOf(found);
  });
}

/** The run that carries all of these tags, if there is one. @param tags their values hold no double quote */
export async function findRun(
  rest: MlflowRest,
  experimentId: string,
  tags: Record<string, string>,
): Promise<MlflowRun | undefined> {
  const [found] = (await rest.repeat(searchOf(experimentId, tags), searchReply)).runs;
  return found && runOf(found);
}

/** @throws MlflowRefusedError when there is no such run any more */
export async function getRun(rest: MlflowRest, runId: string): Promise<MlflowRun> {
  const get = { method: 'GET', path: '/api/2.0/mlflow/runs/get', query: { run_id: runId } } as const;
  return runOf((await rest.repeat(get, runReply)).run);
}

const dataReply = z.object({
  run: z.object({
    data: z
      .object({
        metrics: z.array(z.object({ key: z.string(), value: z.unknown(), timestamp: z.coerce.number() })).default([]),
        params: z.array(z.object({ key: z.string() })).default([]),
      })
      .default({ metrics: [], params: [] }),
  }),
});

/**
 * Doing it again changes nothing: servers before 3.13 refuse a metric that they have, so what is there is read first, and
 * again after an attempt of which nothing is known.
 */
export async function logRun(
  rest: MlflowRest,
  { runId }: Pick<MlflowRun, 'runId'>,
  { metrics, params, atMs }: Pick<RunContent, 'metrics' | 'params' | 'atMs'>,
): Promise<void> {
  const get = { method: 'GET', path: '/api/2.0/mlflow/runs/get', query: { run_id: runId } } as const;
  const timestamp = Math.round(atMs);
  await withRetries(rest.retry, async () => {
    const log = (json: object): Promise<unknown> =>
      rest.once({ method: 'POST', path: '/api/2.0/mlflow/runs/log-batch', json: { run_id: runId, ...json } }, anyReply);
    const { data } = (await rest.once(get, dataReply)).run;
    const known = new Map(data.metrics.map((metric) => [metric.key, metric]));
    const absent = Object.entries(metrics)
      .filter(([key, value]) => {
        const there = known.get(key);
        return Number.isFinite(value) && (there?.value !== value || there.timestamp !== timestamp);
      })
      .map(([key, value]) => ({ key, value, timestamp, step: 0 }));
    for (let i = 0; i < absent.length; i += METRICS_A_BATCH)
      await log({ metrics: absent.slice(i, i + METRICS_A_BATCH) });
    const named = new Set(data.params.map(({ key }) => key));
    const missing = pairs(params)
      .filter(({ key }) => !named.has(key))
      .map(({ key, value }) => ({ key, value: value.slice(0, MAX_PARAM_CHARS) }));
    for (let i = 0; i < missing.length; i += PARAMS_A_BATCH)
      await log({ params: missing.slice(i, i + PARAMS_A_BATCH) });
  });
}

export async function endRun(
  rest: MlflowRest,
  { runId }: Pick<MlflowRun, 'runId'>,
  { status, endMs }: Pick<RunContent, 'status' | 'endMs'>,
): Promise<void> {
  const json = { run_id: runId, status, end_time: Math.round(endMs) };
  await rest.repeat({ method: 'POST', path: '/api/2.0/mlflow/runs/update', json }, anyReply);
}

/**
 * Says on the run why it is not what it should be, or takes back what was said before.
 *
 * @param why `undefined`: all is well
 */
export async function tellFailure(
  rest: MlflowRest,
  { runId }: Pick<MlflowRun, 'runId'>,
  why: string | undefined,
): Promise<void> {
  if (why !== undefined) {
    const json = { run_id: runId, key: FAILURE_TAG, value: why.slice(0, MAX_TAG_CHARS) };
    await rest.repeat({ method: 'POST', path: '/api/2.0/mlflow/runs/set-tag', json }, anyReply);
    return;
  }
  const get = { method: 'GET', path: '/api/2.0/mlflow/runs/get', query: { run_id: runId } } as const;
  // A tag that is not there cannot be deleted: it is looked for first, and again after an attempt of which nothing is known.
  await withRetries(rest.retry, async () => {
    const { tags } = (await rest.once(get, runReply)).run.data;
    if (!tags.some(({ key }) => key === FAILURE_TAG)) return;
    const json = { run_id: runId, key: FAILURE_TAG };
    await rest.once({ method: 'POST', path: '/api/2.0/mlflow/runs/delete-tag', json }, anyReply);
  });
}

const CONTENT_TYPES: Record<string, string> = {
  html: 'text/html',
  json: 'application/json',
  jsonl: 'application/jsonl',
  csv: 'text/csv',
};

/** A file of the result set, wherever it is. */
export interface ResultFile {
  name: string;
  size: number;
  read(): Promise<Buffer>;
}

/**
 * Putting a file again changes nothing.
 *
 * @returns names of the files that were left out, with the reason
 */
export async function putRunFiles(
  rest: MlflowRest,
  run: MlflowRun,
  files: readonly ResultFile[],
  s3: () => Promise<S3Client>,
): Promise<string[]> {
  const leftOut: string[] = [];
  for (const { name, size, read } of files) {
    if (size > MAX_FILE_BYTES) {
      leftOut.push(`${name} (${size} bytes; at most ${MAX_FILE_BYTES})`);
      continue;
    }
    const contentType = CONTENT_TYPES[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
    const reason = await putFile(rest, run, name, await read(), contentType, s3);
    if (reason) leftOut.push(`${name} (${reason})`);
  }
  return leftOut;
}

async function putFile(
  rest: MlflowRest,
  { artifactUri }: MlflowRun,
  name: string,
  bytes: Buffer,
  contentType: string,
  s3: () => Promise<S3Client>,
): Promise<string | undefined> {
  const served = /^mlflow-artifacts:(?:\/\/[^/]*)?\/*(.*)$/.exec(artifactUri);
  if (served) {
    const path = `/api/2.0/mlflow-artifacts/artifacts/${served[1]}/${encodeURIComponent(name)}`;
    await withRetries(rest.retry, () => rest.bytes({ method: 'PUT', path, bytes, contentType }));
    return undefined;
  }
  const inS3 = /^s3:\/\/([^/]+)\/*(.*)$/.exec(artifactUri);
  if (!inS3) return `artifacts of this server are at ${artifactUri}, where nothing can be put`;
  const [, bucket = '', root] = inS3;
  await putToS3(await s3(), bucket, `${root}/${name}`, bytes, contentType);
  return undefined;
}

/** Shows traces under the run. Servers that do not know this yet have the run's name in each trace's tags. */
export async function linkTraces(
  rest: MlflowRest,
  { runId }: Pick<MlflowRun, 'runId'>,
  traceIds: readonly string[],
): Promise<boolean> {
  for (let i = 0; i < traceIds.length; i += LINKS_A_REQUEST) {
    const json = { run_id: runId, trace_ids: traceIds.slice(i, i + LINKS_A_REQUEST) };
    try {
      await rest.repeat({ method: 'POST', path: '/api/2.0/mlflow/traces/link-to-run', json }, anyReply);
    } catch (error) {
      if (error instanceof MlflowRefusedError && (error.status === 404 || error.status === 405 || error.status === 501))
        return false;
      throw error;
    }
  }
  return true;
}
