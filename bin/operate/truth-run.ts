/** Ground truth runs: progress and results of a run, waiting labels, and the figures of a stack. */

import type { SFNClient } from '@aws-sdk/client-sfn';
import type { Work } from '../../src/core/aws/storage.ts';
import type { LabelFileReport, TruthRunSummary } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import type { GroundTruthSettings } from '../../src/core/settings/ground-truth-setting.ts';
import { sum } from '../../src/core/values/sum.ts';
import { labeledHours, readTraffic } from '../../src/ground-truth/join/labeled-store.ts';
import { listSegments } from '../../src/ground-truth/labels/waiting.ts';
import { measureTruth, type TruthQuery } from '../../src/ground-truth/measure/measure.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { describeExecution, type StartedExecution } from './executions.ts';
import { statusOfRun } from './run-report.ts';

type InvocationReport = Pick<TruthRunSummary, 'files' | 'noted'>;

/** Polls one run. */
export function truthWatcher(sfn: SFNClient, { storage, workBucket }: Work, { name, arn }: StartedExecution) {
  const reports: InvocationReport[] = [];
  return async () => {
    const { status = 'RUNNING' } = await describeExecution(sfn, arn);
    for (;;) {
      const report = await storage.getJson<InvocationReport>(workBucket, truthKeys.invocation(name, reports.length));
      if (report === undefined) break;
      reports.push(report);
    }
    return {
      status,
      /** Label files that have been read, and labels that were written to MLflow. */
      files: new Set(reports.flatMap(({ files }) => files)).size,
      noted: sum(reports.map(({ noted }) => noted)),
      news: [] as string[],
    };
  };
}

export type TruthProgress = Awaited<ReturnType<ReturnType<typeof truthWatcher>>>;

/** The outcomes of the labels of a file. */
export type LabelFileState = Omit<LabelFileReport, 'parts'>;

export type TruthReport = Awaited<ReturnType<typeof readTruthReport>>;

const READS_AT_ONCE = 16;

/** Reads the report of a run. */
export async function readTruthReport(sfn: SFNClient, work: Work, arn: string) {
  const { name: run = '', status, error, cause = '' } = await describeExecution(sfn, arn);
  const summary = await work.storage.getJson<TruthRunSummary>(work.workBucket, truthKeys.summary(run));
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
    files: await readReports(work, files),
  };
}

async function readReports({ storage, workBucket }: Work, keys: Iterable<string>): Promise<LabelFileState[]> {
  const read = inOrder(READS_AT_ONCE, keys, (key) => storage.getJson<LabelFileReport>(workBucket, key));
  const reports = (await Array.fromAsync(read)).filter((report) => report !== undefined);
  return reports.map(({ parts: _, ...file }) => file);
}

/** Labels whose prediction has not arrived. */
export type WaitingLabels = Awaited<ReturnType<typeof waitingLabels>>;

/** Files that are looked at. */
const MAX_FILES = 1_000;

/** Counts the labels that wait. It costs a request for each file with such labels. */
export async function waitingLabels(work: Work) {
  const digests = new Set<string>();
  for await (const segment of listSegments(work)) {
    digests.add(segment.slice(0, segment.lastIndexOf('-')));
    if (digests.size > MAX_FILES) break;
  }
  const keys = [...digests].slice(0, MAX_FILES).map(truthKeys.file);
  const waiting = (await readReports(work, keys)).filter(({ counts }) => counts.waiting > 0);
  return {
    labels: sum(waiting.map(({ counts }) => counts.waiting)),
    files: waiting.length,
    /** Time at which the first of the files was read, ISO 8601. `null` if no label waits. */
    since: waiting.map(({ readAt }) => readAt).sort()[0] ?? null,
    /** There are more: not all files were looked at. */
    more: digests.size > MAX_FILES,
  };
}

/**
 * Reads the labeled predictions and computes their figures. @returns `undefined` if there are no predictions, not even
 * left-out ones
 */
export async function truthFigures(work: Work, settings: GroundTruthSettings, { fromMs, toMs, ...query }: TruthQuery) {
  const hours = await labeledHours(work, {
    ...(fromMs === undefined ? {} : { from: hourOf(fromMs) }),
    // Read the hour of the last second before the end.
    ...(toMs === undefined ? {} : { to: new Date(toMs).toISOString() }),
  });
  const read = () => readTraffic(work, hours);
  const figures = await measureTruth(read, settings, { ...query, fromMs, toMs });
  return [...figures.groups, ...Object.keys(figures.leftOut)].length === 0 ? undefined : figures;
}
