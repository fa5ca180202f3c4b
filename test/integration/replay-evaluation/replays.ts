/** Replays of these suites: how they are planned and sent, and what they leave in the work bucket and in MLflow. */
import type { ReadTrace } from '../../helpers/mlflow-reader.ts';
import { chatLine } from '../../helpers/replay.ts';
import type { CloudRun } from '../../helpers/replay-cloud.ts';
import { all } from './servers.ts';

/** The input of a replay that is judged and written to MLflow. */
export const JUDGED = { judge: true };
export const REPLAYS = 'my-endpoint-replays';

export interface Comparison {
  quality: { judged?: Record<string, number>; regressions: Record<string, number>; regressed: number };
  regressions: { eventId: string; requestId: string; file: string; regressions: string[]; rationale?: string }[];
  judgeUsd?: number;
  withoutCaptured: number;
}
export interface Own {
  mlflow: { experiment: string; run_id: string };
  judge: { model: string; budget_usd: number };
  monitoring_run?: { name: string; arn: string; verdicts: string };
  remarks: string[];
}

export const source = (name: string) => ({ prefix: `my-endpoint/AllTraffic/2026/11/20/10/${name}/` });
export const put = (name: string, lines: readonly string[]): Promise<string> => all.cloud.put(`${name}/00`, lines);

/** Plans, sends and summarizes a replay with one shard. */
export async function replayed(name: string, lines: readonly string[], input: object): Promise<CloudRun> {
  await put(name, lines);
  const target = { url: all.endpoint.url };
  const run = all.cloud.run({ source: source(name), target, concurrency: 32, ...input }, {}, name);
  expect((await run.plan(0)).shards).toBe(1);
  expect((await run.shard(0)).failed).toBe(0);
  expect(await run.summarize()).toMatchObject({ ok: true });
  return run;
}

/** The same of many small requests. */
export const manyReplies = (name: string, count: number, input: object): Promise<CloudRun> =>
  replayed(
    name,
    Array.from({ length: count }, (_, i) => chatLine(`e${i}`, 0, `question number ${i} of ${name}`, 'No.')),
    input,
  );

/** The number of traces that are linked to a run of MLflow. */
export const linkedTo = async (runId: string): Promise<number> =>
  (await all.reader.find(await all.experimentId(REPLAYS), `attributes.run_id = '${runId}'`)).length;
export const traceIdsOf = async (run: CloudRun): Promise<string[]> =>
  all.reader.find(await all.experimentId(REPLAYS), `tag.replay_run = '${run.name}'`);

/** The traces by event id, as MLflow's own client reads them. */
export async function tracesOf(run: string): Promise<Record<string, ReadTrace>> {
  const traces = await all.reader.search(await all.experimentId(REPLAYS), `tag.replay_run = '${run}'`);
  return Object.fromEntries(traces.map((trace) => [trace.tags.event_id, trace]));
}
export const preferences = (traces: Record<string, ReadTrace>): Record<string, unknown[]> =>
  Object.fromEntries(
    Object.entries(traces).map(([event, { assessments }]) => [event, assessments.map(({ value }) => value)]),
  );
