/** Creates, fills and ends MLflow runs. */
import * as z from 'zod';
import { withRetries } from '../core/process/retry.ts';
import { batches } from '../core/values/batches.ts';
import { orAbsent } from './errors.ts';
import { anyReply } from './replies.ts';
import type { MlflowRest } from './rest.ts';

/** A run. Its status is MLflow's, such as `RUNNING`. */
const runSchema = z
  .object({ info: z.object({ run_id: z.string(), artifact_uri: z.string(), status: z.string() }) })
  .transform(({ info }) => ({ runId: info.run_id, artifactUri: info.artifact_uri, status: info.status }));
const runReply = z.object({ run: runSchema });
const runsReply = z.object({ runs: z.array(runSchema).default([]) });

/** MLflow's limits for one log-batch request. */
const METRICS_PER_REQUEST = 1000;
const PARAMS_PER_REQUEST = 100;
const MAX_PARAM_CHARS = 6000;
/** The tag that explains why a run is incomplete or failed. */
const FAILURE_TAG = 'replay_error';
/** MLflow's limit for a tag of a run, in old versions too. */
const MAX_RUN_TAG_CHARS = 5000;

interface NewRun {
  name: string;
  startMs: number;
  tags: Record<string, string>;
}

/** The results of a run, and its end. */
export interface RunContent {
  endMs: number;
  status: 'FINISHED' | 'FAILED' | 'KILLED';
  metrics: Record<string, number>;
  params: Record<string, string>;
}

export type MlflowRun = z.infer<typeof runSchema>;

const post = (action: string, json: object) =>
  ({ method: 'POST', path: `/api/2.0/mlflow/runs/${action}`, json }) as const;

const get = (runId: string) => ({ method: 'GET', path: '/api/2.0/mlflow/runs/get', query: { run_id: runId } }) as const;

const pairs = (values: Record<string, string>): { key: string; value: string }[] =>
  Object.entries(values).map(([key, value]) => ({ key, value }));

/** Creates a run. The call is not retried, because a second call would create a second run. */
export async function createRun(rest: MlflowRest, experimentId: string, run: NewRun): Promise<MlflowRun> {
  const own = { run_name: run.name, start_time: Math.round(run.startMs), tags: pairs(run.tags) };
  const json = { experiment_id: experimentId, ...own };
  return (await rest.once(post('create', json), runReply)).run;
}

/**
 * Returns the run that has all of these tags, and creates it if it does not exist. A caller that crashes after creating the
 * run finds it at the next attempt. A run that an earlier attempt has ended is set to `RUNNING` again.
 *
 * @param run.tags their values contain no double quote
 *
 * @example
 *     const { runId } = await findOrCreateRun(mlflow.rest, experimentId, { name, startMs, tags: { execution } });
 */
export async function findOrCreateRun(rest: MlflowRest, experimentId: string, run: NewRun): Promise<MlflowRun> {
  const search = post('search', {
    experiment_ids: [experimentId],
    filter: Object.entries(run.tags)
      .map(([key, value]) => `tags.\`${key}\` = "${value}"`)
      .join(' and '),
    max_results: 1,
    order_by: ['attributes.start_time ASC'],
  });
  // After a call with an unknown outcome, the next attempt searches again before it creates the run.
  return withRetries(rest.retry, async () => {
    const found = (await rest.once(search, runsReply)).runs[0];
    if (!found) return createRun(rest, experimentId, run);
    if (found.status !== 'RUNNING') {
      const json = { run_id: found.runId, status: 'RUNNING' };
      await rest.once(post('update', json), anyReply);
    }
    return found;
  });
}

/** @throws MlflowRefusedError if the run no longer exists */
export async function getRun(rest: MlflowRest, runId: string): Promise<MlflowRun> {
  return (await rest.repeat(get(runId), runReply)).run;
}

const dataReply = z.object({
  run: z.object({
    data: z
      .object({
        metrics: z.array(z.object({ key: z.string(), value: z.unknown(), timestamp: z.coerce.number() })).default([]),
        params: z.array(z.object({ key: z.string() })).default([]),
      })
      .prefault({}),
  }),
});

/**
 * Logs metrics and parameters. Logging them again has no effect: servers before 3.13 refuse a metric that they already
 * have, so each attempt first reads what exists.
 */
export async function logRun(rest: MlflowRest, runId: string, content: RunContent): Promise<void> {
  const { metrics, params, endMs } = content;
  const timestamp = Math.round(endMs);
  await withRetries(rest.retry, async () => {
    const log = (json: object) => rest.once(post('log-batch', { run_id: runId, ...json }), anyReply);
    const { data } = (await rest.once(get(runId), dataReply)).run;
    const known = new Map(data.metrics.map((metric) => [metric.key, metric]));
    const absent = Object.entries(metrics)
      .filter(([key, value]) => {
        const there = known.get(key);
        return Number.isFinite(value) && (there?.value !== value || there.timestamp !== timestamp);
      })
      .map(([key, value]) => ({ key, value, timestamp, step: 0 }));
    for (const batch of batches(absent, METRICS_PER_REQUEST)) await log({ metrics: batch });
    const named = new Set(data.params.map(({ key }) => key));
    const missing = pairs(params)
      .filter(({ key }) => !named.has(key))
      .map(({ key, value }) => ({ key, value: value.slice(0, MAX_PARAM_CHARS) }));
    for (const batch of batches(missing, PARAMS_PER_REQUEST)) await log({ params: batch });
  });
}

type End = Pick<RunContent, 'status' | 'endMs'>;

export async function endRun(rest: MlflowRest, runId: string, { status, endMs }: End): Promise<void> {
  const json = { run_id: runId, status, end_time: Math.round(endMs) };
  await rest.repeat(post('update', json), anyReply);
}

/**
 * Sets the tag that explains a failure of the run, or removes it.
 *
 * @param why `undefined` without a failure
 */
export async function tellFailure(rest: MlflowRest, runId: string, why: string | undefined): Promise<void> {
  if (why !== undefined) {
    const json = { run_id: runId, key: FAILURE_TAG, value: why.slice(0, MAX_RUN_TAG_CHARS) };
    await rest.repeat(post('set-tag', json), anyReply);
    return;
  }
  const json = { run_id: runId, key: FAILURE_TAG };
  // Most runs do not have the tag.
  await rest.repeat(post('delete-tag', json), anyReply).catch(orAbsent);
}
