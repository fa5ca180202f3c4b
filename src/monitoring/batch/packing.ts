/**
 * Packs the requests of a run into jobs. Each job is filled to Bedrock’s limits, whatever the size of the chunks: the requests
 * of consecutive chunks are joined to files, and consecutive files are the input of one job.
 */

import type { Storage } from '../../core/aws/storage.ts';
import type { ManifestLine } from '../../core/contract/payloads.ts';
import type { BatchReport } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { inOrder } from '../../core/process/concurrency.ts';
import { WeightGate } from '../evaluate/held-captures.ts';
import { readManifest } from '../receipts.ts';
import type { PreparedChunk } from './prepare.ts';

/** Bedrock’s quota "Minimum number of records per batch inference job": 100 for every model that has one. */
export const MIN_BATCH_RECORDS = 100;

/**
 * The most of one job. Bedrock’s quotas "Records per batch inference job" and "Records per input file": 50,000, for some models
 * 100,000. "Batch inference job size": 5 GB. Both leave room for a last file that would be too small for a job of its own.
 */
const JOB = { records: 50_000 - MIN_BATCH_RECORDS, bytes: 4.9e9 };

/**
 * A file is closed when it has this much. Each chunk that it contains reads all of its answers, so it is not larger, and a
 * job of 50,000 records has about a hundred. Bedrock’s quota "Batch inference input file size" is 1 GB.
 */
const FILE = { records: 500, bytes: 8e6, chunks: 5_000 };

/** Small objects in flight, at 30 ms each, and files in flight; the memory limits the latter too. */
const READS_AT_ONCE = 64;
const FILES_AT_ONCE = 8;

/** The bytes of a file that is read, joined and sent, in memory: as text and as bytes, twice. */
const BYTES_HELD = 4;

/** An invocation stops this long before its time ends. A file takes seconds. */
const STOP_MS = 60_000;

/** The requests of one chunk. */
interface Requests {
  chunk: number;
  records: number;
  bytes: number;
}

/** A file of requests, by the ordinals of its first and its last chunk. */
interface RequestFile extends Omit<Requests, 'chunk'> {
  first: number;
  last: number;
  chunks: Requests[];
  /** The job that it belongs to, with this file. */
  job: OpenJob;
}

/** The job that is being filled, and what it contains. */
type OpenJob = Omit<NonNullable<BatchReport['packing']>, 'next'>;

interface PackingDependencies {
  storage: Storage;
  workBucket: string;
  /** Returns the milliseconds until the Lambda is ended. */
  remainingMs(): number;
}

/** @returns the job whose input contains the chunk’s requests, and the name of their file, if the chunk has any */
export function fileOfChunk(
  report: BatchReport | undefined,
  chunk: number,
): { job: BatchReport['jobs'][number]; first: number } | undefined {
  const job = report?.jobs.findLast(({ files }) => (files?.[0] ?? Number.POSITIVE_INFINITY) <= chunk);
  const first = job?.files?.findLast((file) => file <= chunk);
  return job === undefined || first === undefined ? undefined : { job, first };
}

/**
 * Packs the rest of the run. Adds the jobs to the report, with the status given, and removes `packing` from it when all is
 * packed. Repeated on the same report, it writes the same files.
 */
export async function pack(run: string, report: BatchReport, status: string, deps: PackingDependencies): Promise<void> {
  const { next, ...job } = report.packing ?? { next: 0, group: 0, records: 0, bytes: 0 };
  const gate = new WeightGate();
  const files = inJobs(filesOf(requestsOf(run, next, deps)), job);
  const write = (file: RequestFile) => gate.pass(file.bytes * BYTES_HELD, () => writeFile(run, file, deps));
  for await (const { file, records } of inOrder(FILES_AT_ONCE, files, write)) {
    if (records > 0) addFile(report, file, records, status);
    report.packing = { next: file.last + 1, ...file.job };
    if (deps.remainingMs() < STOP_MS) return;
  }
  report.packing = undefined;
}

function addFile({ jobs }: BatchReport, { job: { group }, first }: RequestFile, records: number, status: string): void {
  const last = jobs.at(-1);
  if (last?.group !== group) {
    jobs.push({ arn: '', group, records, status, files: [first] });
    return;
  }
  last.records += records;
  last.files?.push(first);
}

/** Yields what was prepared for each chunk from `next` on. A chunk that was not prepared has no requests. */
function requestsOf(run: string, next: number, { storage, workBucket }: PackingDependencies): AsyncGenerator<Requests> {
  async function* rest(): AsyncGenerator<ManifestLine> {
    for await (const line of readManifest(storage, workBucket, run)) if (line.chunk >= next) yield line;
  }
  return inOrder(READS_AT_ONCE, rest(), async ({ chunk }) => {
    const prepared = await storage.getJson<PreparedChunk>(workBucket, workKeys.batchPrepared(run, chunk));
    return { chunk, records: prepared?.records ?? 0, bytes: prepared?.bytes ?? 0 };
  });
}

async function* filesOf(chunks: AsyncIterable<Requests>): AsyncGenerator<Omit<RequestFile, 'job'>> {
  let open: Omit<RequestFile, 'job'> | undefined;
  for await (const one of chunks) {
    open ??= { first: one.chunk, last: one.chunk, chunks: [], records: 0, bytes: 0 };
    open.last = one.chunk;
    open.records += one.records;
    open.bytes += one.bytes;
    if (one.records > 0) open.chunks.push(one);
    const isFull = open.records >= FILE.records || open.bytes >= FILE.bytes;
    // Where most chunks ask nothing, the file is closed too, so that the work advances.
    if (!isFull && open.last - open.first < FILE.chunks) continue;
    yield open;
    open = undefined;
  }
  if (open !== undefined) yield open;
}

/** Assigns the files to jobs. The last file joins the job before it if it is too small for one of its own. */
async function* inJobs(files: AsyncIterable<Omit<RequestFile, 'job'>>, job: OpenJob): AsyncGenerator<RequestFile> {
  let open = job;
  const assign = (file: Omit<RequestFile, 'job'>, isLast: boolean): RequestFile => {
    const isFull = open.records + file.records > JOB.records || open.bytes + file.bytes > JOB.bytes;
    const isOwn = isFull && !(isLast && file.records < MIN_BATCH_RECORDS);
    const { group, records, bytes } = isOwn ? { group: open.group + 1, records: 0, bytes: 0 } : open;
    open = { group, records: records + file.records, bytes: bytes + file.bytes };
    return { ...file, job: open };
  };
  let held: Omit<RequestFile, 'job'> | undefined;
  for await (const file of files) {
    if (held !== undefined) yield assign(held, false);
    held = file;
  }
  if (held !== undefined) yield assign(held, true);
}

/** Joins the requests of the chunks. @returns the number of requests that are in the file */
async function writeFile(
  run: string,
  file: RequestFile,
  { storage, workBucket }: PackingDependencies,
): Promise<{ file: RequestFile; records: number }> {
  const texts = await Promise.all(
    file.chunks.map(async ({ chunk, bytes, records }) => {
      const text = (await storage.getText(workBucket, workKeys.batchRequests(run, chunk)))?.text ?? '';
      // A file of another size is from an attempt that failed: no money is reserved for it.
      return Buffer.byteLength(text) === bytes ? { text, records } : { text: '', records: 0 };
    }),
  );
  const records = texts.reduce((sum, one) => sum + one.records, 0);
  if (records > 0) {
    const key = workKeys.batchInput(run, file.job.group, file.first);
    await storage.putText(workBucket, key, texts.map(({ text }) => text).join(''), 'application/jsonlines');
  }
  return { file, records };
}
