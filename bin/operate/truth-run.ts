/**
 * Ground truth runs: how far one is, what it did, the labels that wait, and the figures of a stack; with their
 * texts for terminals of any width.
 */

import { DescribeExecutionCommand, type DescribeExecutionCommandOutput } from '@aws-sdk/client-sfn';
import { Storage } from '../../src/core/aws/storage.ts';
import type { LabelCounts, LabelFileReport, TruthRunSummary } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import type { GroundTruthSettings } from '../../src/core/settings/ground-truth-setting.ts';
import { singleLine, type TableOptions, tableText, wrappedText } from '../../src/core/text/terminal-text.ts';
import { labeledHours, readLabeled } from '../../src/ground-truth/join/labeled-store.ts';
import { listParts } from '../../src/ground-truth/join/waiting.ts';
import type { TruthFigures } from '../../src/ground-truth/measure/figures.ts';
import { measureTruth, type TruthQuery } from '../../src/ground-truth/measure/measure.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { some, whole } from '../cli/output.ts';
import type { AwsClients } from './aws-clients.ts';
import { statusOfRun } from './run-report.ts';

type Clients = Pick<AwsClients, 's3' | 'sfn'>;
type Part = Pick<TruthRunSummary, 'files' | 'noted'>;

/** Looks at one run, again and again. */
export function truthWatcher(clients: Clients, workBucket: string, { name, arn }: { name: string; arn: string }) {
  const parts: Part[] = [];
  return async () => {
    const { status = 'RUNNING' } = await describe(clients, arn);
    const storage = new Storage(clients.s3);
    for (;;) {
      const part = await storage.getJson<Part>(workBucket, truthKeys.part(name, parts.length));
      if (part === undefined) break;
      parts.push(part);
    }
    return {
      status,
      /** Label files that have been read, and labels that were written to MLflow. */
      files: new Set(parts.flatMap(({ files }) => files)).size,
      noted: parts.reduce((sum, { noted }) => sum + noted, 0),
      news: [] as string[],
    };
  };
}

export type TruthLook = Awaited<ReturnType<ReturnType<typeof truthWatcher>>>;

const describe = ({ sfn }: Pick<Clients, 'sfn'>, executionArn: string): Promise<DescribeExecutionCommandOutput> =>
  sfn.send(new DescribeExecutionCommand({ executionArn }));

/** What happened to the labels of a file. */
export type LabelFileState = Omit<LabelFileReport, 'parts'>;

export type TruthReport = Awaited<ReturnType<typeof readTruthReport>>;

const READS_AT_ONCE = 16;

/** Reads what a run did. */
export async function readTruthReport(clients: Clients, workBucket: string, arn: string) {
  const { name: run = '', status, error, cause = '' } = await describe(clients, arn);
  const storage = new Storage(clients.s3);
  const summary = await storage.getJson<TruthRunSummary>(workBucket, truthKeys.summary(run));
  const { noted = 0, notNoted = {}, notedBy, files = [] } = summary ?? {};
  return {
    run,
    arn,
    status: statusOfRun(status),
    error: error === undefined ? undefined : { name: error, message: cause },
    noted,
    notNoted,
    notedBy,
    /** Empty until the run has ended. */
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
export type WaitingLabels = Awaited<ReturnType<typeof waitingLabels>>;

/** Files that are looked at. */
const MAX_FILES = 1_000;

/** Counts the labels that wait. It costs a request for each file with such labels. */
export async function waitingLabels(storage: Storage, bucket: string) {
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
    /** When the first of the files was read, ISO 8601; `null`: none waits. */
    since: waiting.map(({ readAt }) => readAt).sort()[0] ?? null,
    /** There are more: not all files were looked at. */
    more: digests.size > MAX_FILES,
  };
}

/** Reads the labeled predictions and computes their figures. @returns `undefined` if there are none, nor any left out */
export async function truthFigures(
  storage: Storage,
  bucket: string,
  settings: GroundTruthSettings,
  { fromMs, toMs, ...query }: TruthQuery,
): Promise<TruthFigures | undefined> {
  const hours = await labeledHours(storage, bucket, {
    ...(fromMs === undefined ? {} : { from: hourOf(fromMs) }),
    // That of the last second before the end is read.
    ...(toMs === undefined ? {} : { to: new Date(toMs).toISOString() }),
  });
  const figures = await measureTruth(readLabeled(storage, bucket, hours), settings, { ...query, fromMs, toMs });
  return [...figures.groups, ...Object.keys(figures.leftOut)].length === 0 ? undefined : figures;
}

// ------------------------------------------------------------------------------------------------------------ text

/** Faults, and replaced labels, that are shown of a file. */
const MAX_SHOWN = 10;

const OUTCOMES: readonly (keyof LabelCounts)[] = [
  ...(['lines', 'joined', 'repeated', 'replaced', 'outdated'] as const),
  ...(['waiting', 'unknown', 'ambiguous', 'invalid'] as const),
];

/** Returns what a person calls a label file: its path below an upload, or its address. */
export function labelFileName({ bucket, key }: Pick<LabelFileState, 'bucket' | 'key'>): string {
  // Behind the folder of the upload.
  const path = key.startsWith(truthKeys.uploadsPrefix) ? key.slice(truthKeys.uploadsPrefix.length) : '';
  return singleLine(path.slice(path.indexOf('/') + 1) || `s3://${bucket}/${key}`);
}

/** Formats the counts of the files, which add up to their lines, the faults by line, and the labels that were replaced. */
export function truthReportText({ run, status, error, files, ...written }: TruthReport, options: TableOptions): string {
  const lines = [
    options.style('bold', `── ${singleLine(run)}: ${status} ──`),
    ...(error === undefined ? [] : [singleLine(`${error.name}: ${error.message}`)]),
    ...(status === 'running' ? ['Its counts come when it has ended.'] : []),
  ];
  const { width } = options;
  return wrappedText(lines, width) + labelFilesText(files, options) + wrappedText(notedLines(written), width);
}

/** A report with what a person calls its file. */
type NamedReport = LabelFileState & { name: string };

/** Formats the counts of label files, their faults by line, and the labels that were replaced. */
export function labelFilesText(
  found: readonly LabelFileState[],
  options: TableOptions,
  nameOf = labelFileName,
): string {
  if (found.length === 0) return '';
  const files = found.map((file) => ({ ...file, name: nameOf(file) }));
  const details = files.flatMap((file) => [...faultLines(file), ...replacedLines(file)]);
  return countsTable(files, options) + wrappedText(details, options.width);
}

/** Outcomes that no file has are left out. */
function countsTable(files: readonly NamedReport[], options: TableOptions): string {
  const used = OUTCOMES.filter((name) => name === 'lines' || files.some(({ counts }) => counts[name] > 0));
  const rows = files.map((file) => [file.name, ...used.map((name) => whole(file.counts[name]))]);
  const sum = (name: keyof LabelCounts): number => files.reduce((total, { counts }) => total + counts[name], 0);
  const total = files.length === 1 ? [] : [['all', ...used.map((name) => whole(sum(name)))]];
  return tableText(['file', ...used], [...rows, ...total], options);
}

function faultLines({ name, counts, error, faults }: NamedReport): string[] {
  if (error !== undefined) return [`${name}: not read: ${error.name}: ${singleLine(error.message)}`];
  const lines = faults.map(({ line, name: fault, message }) => `${name}:${line}: ${fault}: ${singleLine(message)}`);
  return firstOf(lines, counts.invalid + counts.ambiguous, (more) => `${name}: and ${more} more`);
}

/** The first lines, and how many there are besides. */
const firstOf = (lines: readonly string[], all: number, rest: (more: string) => string): string[] => [
  ...lines.slice(0, MAX_SHOWN),
  ...(all > MAX_SHOWN ? [rest(whole(all - MAX_SHOWN))] : []),
];

function replacedLines({ name, counts, replacedLabels }: NamedReport): string[] {
  const lines = replacedLabels.map(({ line, id, from, to }) =>
    singleLine(`${name}:${line}: ${id} was ${from}, and is ${to} now`),
  );
  return firstOf(lines, counts.replaced, (more) => `${name}: and ${more} more were replaced`);
}

function notedLines({ noted, notNoted, notedBy }: Pick<TruthReport, 'noted' | 'notNoted' | 'notedBy'>): string[] {
  const not = Object.entries(notNoted).map(([reason, count]) => `${singleLine(reason)} ${whole(count)}`);
  return [
    ...(noted > 0 ? [`${whole(noted)} ${noted === 1 ? 'label was' : 'labels were'} written to MLflow.`] : []),
    ...(not.length > 0 ? [`Not written to MLflow: ${not.join(', ')}.`] : []),
    ...(notedBy === undefined ? [] : [`The run ${singleLine(notedBy)} writes these labels to MLflow.`]),
  ];
}

/** Says how many labels wait for their predictions; nothing if none does. */
export function waitingText({ labels, files, since, more }: WaitingLabels, options: TableOptions): string {
  if (labels === 0) return '';
  const count = `${more ? 'More than ' : ''}${some(labels, 'label')} of ${some(files, 'file')}`;
  const time = since?.slice(0, '2026-11-20T10:00'.length).replace('T', ' ');
  const text = `${count} ${labels === 1 ? 'has' : 'have'} no matching prediction yet (waiting since ${time} UTC).`;
  return wrappedText([text], options.width);
}
