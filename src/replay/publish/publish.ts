/** Publishes a finished replay of one process in MLflow: a run with metrics, parameters and files, and a trace per request. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { S3Client } from '@aws-sdk/client-s3';
import type { MlflowClient } from '../../mlflow/client.ts';
import { putRunFiles, type ResultFile } from '../../mlflow/run-files.ts';
import { createRun, endRun, logRun } from '../../mlflow/runs.ts';
import type { Experiment } from '../../mlflow/types.ts';
import type { Quality } from '../compare/quality.ts';
import { RESULT_FILES } from '../results/result-set.ts';
import type { ReplayResult } from '../to-directory.ts';
import { runContentOf } from './run-content.ts';
import { exchangeTraces, type WrittenTraces } from './write-traces.ts';

export interface Published extends WrittenTraces {
  runId: string;
  leftOut: string[];
  /** The first failure of each step. Any failure marks the run as failed. */
  failures: unknown[];
}

export interface MlflowPorts {
  client: MlflowClient;
  experiment: Experiment;
  /** Called only if the server keeps its artifacts in S3. */
  s3: () => Promise<S3Client>;
}

/**
 * Continues with the next step if one fails: a trace that cannot be written must not prevent the upload of the files.
 *
 * @param quality of the replies, if they were compared. If they were judged, the verdicts are in the directory
 * @throws errors of MLflow's client if the run cannot be created
 */
export async function publish(
  { client, experiment, s3 }: MlflowPorts,
  directory: string,
  result: ReplayResult,
  status: 'KILLED' | 'FAILED' | 'FINISHED',
  quality: Quality | undefined,
): Promise<Published> {
  const { run: name, startMs } = result;
  const content = runContentOf(result, status, quality);
  const tags = { replay_run: name, 'mlflow.source.name': 'inference-monitor replay', 'mlflow.source.type': 'LOCAL' };
  const run = await createRun(client.rest, experiment.id, { name, startMs, tags });
  const failures: unknown[] = [];
  const attempt = (work: () => Promise<void>): Promise<void> =>
    work().catch((error: unknown) => {
      failures.push(error);
    });
  await attempt(() => logRun(client.rest, run.runId, content));
  const traces = exchangeTraces(client, experiment, run.runId, name, directory);
  await attempt(() => traces.write(quality?.judged !== undefined));
  let leftOut: string[] = [];
  await attempt(async () => {
    leftOut = await putRunFiles(client.rest, run, await filesOf(directory), s3);
  });
  const end = failures.length > 0 ? 'FAILED' : status;
  await attempt(() => endRun(client.rest, run.runId, { ...content, status: end }));
  return { runId: run.runId, ...traces.result, leftOut, failures };
}

/** Returns the result files only: the directory may contain other files, such as a `.env`. */
async function filesOf(directory: string): Promise<ResultFile[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile() && RESULT_FILES.has(entry.name)).map(({ name }) => name);
  return Promise.all(
    names.sort().map(async (name) => {
      const path = join(directory, name);
      return { name, size: (await stat(path)).size, read: () => readFile(path) };
    }),
  );
}
