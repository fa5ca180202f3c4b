/** A finished replay in MLflow: a run with its figures, parameters and files, and a trace for every request. */
import { createReadStream } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { S3Client } from '@aws-sdk/client-s3';
import type { MlflowClient } from '../../mlflow/client.ts';
import type { MlflowRest } from '../../mlflow/rest.ts';
import type { Experiment } from '../../mlflow/types.ts';
import type { TraceRecord } from '../../trace/types.ts';
import type { RunClock } from '../clock.ts';
import type { Quality } from '../compare/quality.ts';
import type { Measured } from '../measure/measure.ts';
import type { RunStats } from '../measure/run-stats.ts';
import { LineWriter } from '../results/line-writer.ts';
import { figures } from '../results/summary.ts';
import { createRun, endRun, linkTraces, logRun, putFiles, type RunContent } from './mlflow-run.ts';
import { replayTrace } from './replay-trace.ts';
import { replayedLine } from './replayed-line.ts';

const SPOOL_FILE = 'replayed.spool.jsonl';
/** Traces handed over at a time; the client cuts them into requests itself. */
const TRACES_A_BATCH = 200;

/** Keeps each exchange until the run is over: writing traces meanwhile would take time from the replay. */
export class TraceSpool {
  readonly #writer: LineWriter;
  readonly #run: string;
  readonly #target: string;

  constructor(directory: string, run: string, target: string) {
    this.#writer = new LineWriter(join(directory, SPOOL_FILE));
    this.#run = run;
    this.#target = target;
  }

  add(measured: Measured, clock: RunClock): void {
    this.#writer.write(JSON.stringify(replayedLine(measured, clock, this.#run, this.#target)));
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
}

export interface Publication {
  run: string;
  directory: string;
  startMs: number;
  endMs: number;
  status: RunContent['status'];
  scheduled: boolean;
  stats: RunStats;
  quality?: Quality;
  params: Record<string, string>;
}

export interface Published {
  runId: string;
  traces: number;
  /** Traces that MLflow refused for what they are. */
  refused: number;
  linked: boolean;
  leftOut: string[];
}

export interface MlflowPorts {
  rest: MlflowRest;
  client: MlflowClient;
  experiment: Experiment;
  /** Called only where the server keeps its artifacts in S3. */
  s3: () => Promise<S3Client>;
}

/** `request_latency_p99`, `request_throughput`, …, and those of the comparison. */
export function metricsOf(stats: RunStats, scheduled: boolean, quality?: Quality): Record<string, number> {
  const metrics: Record<string, number> = {};
  for (const [tag, result] of figures(stats, { scheduled }).results) {
    const single = result.p50 === undefined;
    for (const statistic of single ? ['avg'] : ['avg', 'p50', 'p90', 'p95', 'p99', 'min', 'max']) {
      const value = result[statistic];
      if (typeof value === 'number') metrics[single ? tag : `${tag}_${statistic}`] = value;
    }
  }
  if (quality) {
    const { compared, identical, same, regressed, meanOverlap, status, refusals, judged } = quality;
    Object.assign(metrics, {
      replies_compared: compared,
      replies_identical: identical,
      replies_same: same,
      replies_regressed: regressed,
    });
    Object.assign(metrics, { replies_newly_failing: status['newly-failing'], replies_new_refusals: refusals.new });
    if (meanOverlap !== null) metrics.replies_mean_overlap = meanOverlap;
    if (judged) for (const [verdict, count] of Object.entries(judged)) metrics[`judged_${verdict}`] = count;
  }
  return metrics;
}

export async function publish(ports: MlflowPorts, publication: Publication): Promise<Published> {
  const { rest, experiment } = ports;
  const { run: name, directory, startMs, endMs, status, stats, scheduled, quality, params } = publication;
  const tags = { replay_run: name, 'mlflow.source.name': 'inference-monitor replay', 'mlflow.source.type': 'LOCAL' };
  const content: RunContent = {
    name,
    startMs,
    endMs,
    status,
    metrics: metricsOf(stats, scheduled, quality),
    params,
    tags,
  };
  const run = await createRun(rest, experiment.id, content);
  await logRun(rest, run, content);
  const traces = await writeTraces(ports, join(directory, SPOOL_FILE));
  const linked = await linkTraces(rest, run, traces.ids);
  await rm(join(directory, SPOOL_FILE), { force: true });
  const files = (await readdir(directory, { withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ name: file }) => file);
  const leftOut = await putFiles(rest, run, directory, files.sort(), ports.s3);
  await endRun(rest, run, content);
  return { runId: run.runId, traces: traces.ids.length, refused: traces.refused, linked, leftOut };
}

/** Ids of a million traces are 70 MB: the one thing here that grows with the run, after it is over. */
async function writeTraces(
  { client, experiment }: MlflowPorts,
  spool: string,
): Promise<{ ids: string[]; refused: number }> {
  const ids: string[] = [];
  let refused = 0;
  let batch: TraceRecord[] = [];
  const flush = async (): Promise<void> => {
    const result = await client.writeTraces(experiment, batch);
    refused += result.refused.length;
    ids.push(...result.written, ...result.alreadyThere);
    batch = [];
  };
  for await (const line of createInterface({ input: createReadStream(spool), crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line === '') continue;
    const trace = replayTrace(line, experiment.id);
    if (trace) batch.push(trace);
    if (batch.length >= TRACES_A_BATCH) await flush();
  }
  if (batch.length > 0) await flush();
  return { ids, refused };
}
