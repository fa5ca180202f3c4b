/** Publishes a finished replay of one process in MLflow: a run with metrics, parameters and files, and a trace per request. */
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { S3Client } from '@aws-sdk/client-s3';
import type { MlflowClient } from '../../mlflow/client.ts';
import { putRunFiles, type ResultFile } from '../../mlflow/run-files.ts';
import { createRun, endRun, logRun, type MlflowRun } from '../../mlflow/runs.ts';
import type { Experiment } from '../../mlflow/types.ts';
import { jsonLines } from '../compare/json-lines.ts';
import type { JudgedReply } from '../compare/judge-replies.ts';
import { JUDGED_FILE } from '../compare/with-captured.ts';
import type { ReplayRunContent } from '../finish.ts';
import { LineWriter } from '../results/line-writer.ts';
import { RESULT_FILES } from '../results/result-set.ts';
import { scanFile } from '../source/lines.ts';
import { SPOOL_FILE } from './spool.ts';
import { type AssessedVerdicts, writeAssessments } from './write-assessments.ts';
import { REFUSED_FILE, SpoolBatch, writeTraces } from './write-traces.ts';

/** MLflow returns the traces of this many verdicts in one request. */
const BATCH_VERDICTS = 100;

export interface Publication {
  run: string;
  directory: string;
  startMs: number;
  content: ReplayRunContent;
  /** Whether the judge was asked: then its verdicts are in the directory. */
  judged: boolean;
}

export interface Published {
  runId: string;
  traces: number;
  /** Traces that MLflow refused, listed in `refused-traces.jsonl`. */
  refused: number;
  linked: boolean;
  /** Verdicts of the judge; absent if it was not asked. */
  assessments?: AssessedVerdicts;
  leftOut: string[];
  /** The first failure of each step. If there is one, the run is marked as failed. */
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
 * @throws errors of MLflow's client if the run cannot be created
 */
export async function publish(ports: MlflowPorts, publication: Publication): Promise<Published> {
  try {
    return await publishAll(ports, publication);
  } finally {
    // Nothing else needs the spool.
    await rm(join(publication.directory, SPOOL_FILE), { force: true });
  }
}

async function publishAll(ports: MlflowPorts, publication: Publication): Promise<Published> {
  const { client, experiment } = ports;
  const { run: name, directory, startMs, content } = publication;
  const tags = { replay_run: name, 'mlflow.source.name': 'inference-monitor replay', 'mlflow.source.type': 'LOCAL' };
  const run = await createRun(client.rest, experiment.id, { name, startMs, tags });
  const failures: unknown[] = [];
  const attempt = (work: () => Promise<void>): Promise<void> =>
    work().catch((error: unknown) => {
      failures.push(error);
    });
  const published: Published = { runId: run.runId, traces: 0, refused: 0, linked: true, leftOut: [], failures };
  await attempt(() => logRun(client.rest, run, content));
  await attempt(() => writeSpool(ports, run, directory, published));
  if (publication.judged) await attempt(() => writeVerdicts(ports, name, directory, published));
  await attempt(async () => {
    published.leftOut = await putRunFiles(client.rest, run, await filesOf(directory), ports.s3);
  });
  const status = failures.length > 0 ? 'FAILED' : content.status;
  await attempt(() => endRun(client.rest, run, { ...content, status }));
  return published;
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

async function writeSpool(
  { client, experiment }: MlflowPorts,
  { runId }: MlflowRun,
  directory: string,
  published: Published,
): Promise<void> {
  let refused: LineWriter | undefined;
  const flush = async (lines: readonly string[]): Promise<void> => {
    const written = await writeTraces({ client, experiment, runId }, lines, published.linked);
    published.traces += written.traces;
    published.linked = written.linked;
    for (const one of written.refused) {
      refused ??= new LineWriter(join(directory, REFUSED_FILE));
      refused.write(JSON.stringify(one));
      published.refused++;
    }
  };
  try {
    let batch = new SpoolBatch();
    // No length limit: a line contains a request and a reply, which together may exceed the limit of a capture line.
    for await (const { bytes } of scanFile(join(directory, SPOOL_FILE), Number.POSITIVE_INFINITY)) {
      if (bytes) batch.add(bytes.toString('utf8'));
      if (!batch.isFull) continue;
      await flush(batch.lines);
      batch = new SpoolBatch();
    }
    if (batch.lines.length > 0) await flush(batch.lines);
  } finally {
    await refused?.close();
  }
}

/** Writes the judge's verdicts as assessments of the replayed traces. */
async function writeVerdicts(ports: MlflowPorts, run: string, directory: string, published: Published): Promise<void> {
  const assessments: AssessedVerdicts = { written: 0, withoutTrace: 0 };
  published.assessments = assessments;
  let batch: JudgedReply[] = [];
  for await (const { value } of jsonLines(join(directory, JUDGED_FILE))) {
    batch.push(value as JudgedReply);
    if (batch.length < BATCH_VERDICTS) continue;
    await writeAssessments(ports, run, batch, assessments);
    batch = [];
  }
  await writeAssessments(ports, run, batch, assessments);
}
