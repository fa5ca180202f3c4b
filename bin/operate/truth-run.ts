/** Ground truth runs: how far one is, what became of it, and the labels that wait. */
import { DescribeExecutionCommand, type DescribeExecutionCommandOutput } from '@aws-sdk/client-sfn';
import { Storage } from '../../src/core/aws/storage.ts';
import type { LabelFileReport, TruthRunSummary } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import { listParts } from '../../src/ground-truth/join/waiting.ts';
import type { AwsClients } from './aws-clients.ts';
import { type RunStatus, statusOfRun } from './run-report.ts';

type Clients = Pick<AwsClients, 's3' | 'sfn'>;
type Part = Pick<TruthRunSummary, 'files' | 'noted'>;

/** Looks at one run. */
export class TruthWatcher {
  readonly #clients: Clients;
  readonly #workBucket: string;
  readonly #run: { name: string; arn: string };
  readonly #parts: Part[] = [];

  constructor(clients: Clients, workBucket: string, run: { name: string; arn: string }) {
    this.#clients = clients;
    this.#workBucket = workBucket;
    this.#run = run;
  }

  async look() {
    const { name, arn } = this.#run;
    const { status = 'RUNNING' } = await describe(this.#clients, arn);
    const storage = new Storage(this.#clients.s3);
    for (;;) {
      const part = await storage.getJson<Part>(this.#workBucket, truthKeys.part(name, this.#parts.length));
      if (part === undefined) break;
      this.#parts.push(part);
    }
    return {
      status,
      /** Label files that have been read, and labels that were written to MLflow. */
      files: new Set(this.#parts.flatMap(({ files }) => files)).size,
      noted: this.#parts.reduce((sum, { noted }) => sum + noted, 0),
      news: [] as string[],
    };
  }
}

const describe = ({ sfn }: Pick<Clients, 'sfn'>, executionArn: string): Promise<DescribeExecutionCommandOutput> =>
  sfn.send(new DescribeExecutionCommand({ executionArn }));

/** What became of the labels of a file. */
export type LabelFileState = Omit<LabelFileReport, 'parts'>;

export interface TruthReport extends Pick<TruthRunSummary, 'noted' | 'notNoted' | 'notedBy'> {
  run: string;
  arn: string;
  status: RunStatus;
  error?: { name: string; message: string } | undefined;
  /** Empty until the run has ended. */
  files: LabelFileState[];
}

const READS_AT_ONCE = 16;

/** Reads what became of a run. */
export async function readTruthReport(clients: Clients, workBucket: string, arn: string): Promise<TruthReport> {
  const { name: run = '', status, error, cause = '' } = await describe(clients, arn);
  const storage = new Storage(clients.s3);
  const summary = await storage.getJson<TruthRunSummary>(workBucket, truthKeys.summary(run));
  const { noted = 0, notNoted = {}, notedBy, files = [] } = summary ?? {};
  return {
    run,
    arn,
    status: statusOfRun(status),
    ...(error === undefined ? {} : { error: { name: error, message: cause } }),
    ...{ noted, notNoted, ...(notedBy === undefined ? {} : { notedBy }) },
    files: await readReports(storage, workBucket, files),
  };
}

async function readReports(storage: Storage, bucket: string, keys: Iterable<string>): Promise<LabelFileState[]> {
  const files: LabelFileState[] = [];
  const reports = inOrder(READS_AT_ONCE, keys, (key) => storage.getJson<LabelFileReport>(bucket, key));
  for await (const report of reports) {
    if (report === undefined) continue;
    const { parts: _, ...file } = report;
    files.push(file);
  }
  return files;
}

/** Labels whose prediction has not come. */
export interface WaitingLabels {
  labels: number;
  files: number;
  /** When the first of the files was read, ISO 8601; `null`: none waits. */
  since: string | null;
  /** There are more: not all files were looked at. */
  more: boolean;
}

/** Files that are looked at. */
const MAX_FILES = 1_000;

/** Counts the labels that wait. It costs a request for each file with such labels. */
export async function waitingLabels(storage: Storage, bucket: string): Promise<WaitingLabels> {
  const digests = new Set<string>();
  for await (const part of listParts(storage, bucket, '')) {
    digests.add(part.slice(0, part.lastIndexOf('-')));
    if (digests.size > MAX_FILES) break;
  }
  const keys = [...digests].slice(0, MAX_FILES).map(truthKeys.file);
  const waiting = (await readReports(storage, bucket, keys)).filter(({ counts }) => counts.waiting > 0);
  return {
    labels: waiting.reduce((sum, { counts }) => sum + counts.waiting, 0),
    files: waiting.length,
    since: waiting.map(({ readAt }) => readAt).sort()[0] ?? null,
    more: digests.size > MAX_FILES,
  };
}
