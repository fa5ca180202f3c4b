/** What became of a run: of one that has ended, is running, was stopped, or that Step Functions has forgotten. */

import { Storage } from '../../src/core/aws/storage.ts';
import type { ManifestLine } from '../../src/core/contract/payloads.ts';
import type { BatchReport, PlanReceipt } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { withRanges } from '../../src/monitoring/chunk/ranges.ts';
import { readChunks, readPlanReceipts } from '../../src/monitoring/receipts.ts';
import { type RunSummary, SummaryBuilder } from '../../src/monitoring/summary.ts';
import type { AwsClients } from './aws-clients.ts';
import { type FoundExecution, findExecution, type StateMachines } from './find-execution.ts';
import { type ReasonWithLines, readReasons } from './quarantine-report.ts';
import { inputWords } from './start-execution.ts';

export const RUN_STATUSES = ['running', 'succeeded', 'failed', 'stopped', 'timed out', 'forgotten'] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

const STATUSES: Readonly<Record<string, RunStatus>> = {
  RUNNING: 'running',
  PENDING_REDRIVE: 'running',
  SUCCEEDED: 'succeeded',
  FAILED: 'failed',
  ABORTED: 'stopped',
  TIMED_OUT: 'timed out',
};

/** Returns the status of an execution in the words of the commands. */
export const statusOfRun = (status: string | undefined): RunStatus => STATUSES[status ?? ''] ?? 'running';

export interface RunReport {
  run: string;
  /** Absent if Step Functions has forgotten the execution, 90 days after its end. */
  arn?: string | undefined;
  status: RunStatus;
  startedAt?: string | undefined;
  endedAt?: string | undefined;
  error?: { name: string; message: string } | undefined;
  /** What it was asked to do, in words. */
  asked: string;
  input: unknown;
  /** Absent if nothing of the run is in the work bucket any more. */
  summary?: RunSummary | undefined;
  /** `false`: added up from the receipts so far, since the run has not written its summary. */
  isFinal: boolean;
  /** Planning has not come to its end: a retry knows only of what was planned. */
  isPartlyPlanned: boolean;
  quarantined: ReasonWithLines[];
  experimentId?: string | undefined;
  /** Jobs of batch inference that had not ended when the run last looked. They go on without it, and cost money. */
  openBatchJobs: string[];
}

/** A run of the stack, or what is left of it. */
export type FoundRun = Pick<FoundExecution, 'name'> & Partial<FoundExecution>;

/**
 * Finds a monitoring run, also one that Step Functions has forgotten, of which the work bucket has a summary or quarantined lines.
 *
 * @throws PermanentError `NoSuchRun`, `AmbiguousRun`
 */
export async function findStackRun(
  clients: Pick<AwsClients, 's3' | 'sfn'>,
  machines: StateMachines,
  workBucket: string,
  run: string,
): Promise<FoundRun> {
  try {
    return await findExecution(clients.sfn, machines, run);
  } catch (error) {
    if ((error as Error).name !== 'NoSuchRun') throw error;
    const storage = new Storage(clients.s3);
    const name = run.split(':').at(-1) ?? run;
    for (const prefix of [workKeys.summary(name), workKeys.quarantinePrefix(name)]) {
      for await (const _ of storage.list(workBucket, prefix)) return { name };
    }
    throw error;
  }
}

/** Reads what became of a run. A run without a summary costs a request for each of its receipts. */
export async function readRunReport(
  clients: Pick<AwsClients, 's3'>,
  workBucket: string,
  found: FoundRun,
): Promise<RunReport> {
  const { name, executionArn, status, startDate, stopDate, error, cause, input } = found;
  const storage = new Storage(clients.s3);
  const written = await storage.getJson<RunSummary>(workBucket, workKeys.summary(name));
  const isRunning = statusOfRun(status) === 'running' && executionArn !== undefined;
  const soFar = written === undefined ? await summarySoFar(storage, workBucket, found, isRunning) : undefined;
  const summary = written ?? soFar?.summary;
  const asked = input === undefined ? (summary?.input ?? null) : JSON.parse(input);
  return {
    run: name,
    arn: executionArn,
    status: executionArn === undefined ? 'forgotten' : statusOfRun(status),
    startedAt: startDate?.toISOString() ?? summary?.startedAt,
    endedAt: stopDate?.toISOString() ?? written?.endedAt,
    error: error === undefined ? undefined : { name: error, message: cause ?? '' },
    asked: inputWords(asked, summary?.objects),
    input: asked,
    summary,
    isFinal: written !== undefined,
    isPartlyPlanned: written?.partlyPlanned ?? soFar?.isPartlyPlanned ?? false,
    quarantined: summary === undefined ? [] : await readReasons(clients.s3, [{ workBucket, summary }]),
    experimentId: await experimentOf(storage, workBucket, name),
    openBatchJobs: await openJobs(storage, workBucket, name),
  };
}

/** A plan of an earlier version names it in its manifest alone. */
async function experimentOf(storage: Storage, workBucket: string, run: string): Promise<string | undefined> {
  const plan = await storage.getJson<PlanReceipt>(workBucket, workKeys.plan(run, 0));
  if (plan === undefined || plan.experimentId !== undefined) return plan?.experimentId;
  for await (const { key } of storage.list(workBucket, workKeys.manifestPrefix(run))) {
    return (await storage.getJsonLines<ManifestLine>(workBucket, key))[0]?.experimentId;
  }
  return undefined;
}

/**
 * Returns whether there are chunks, or reports of files, of all that a run was asked to do; `false` of one that ended in planning
 * and can be started again by its input.
 */
export function isPlanned({ status, summary, input, isPartlyPlanned }: PlanOutcome): boolean {
  if (status === 'running' || status === 'succeeded' || input === null) return true;
  if (isPartlyPlanned) return false;
  return summary !== undefined && (summary.chunks.planned > 0 || summary.failedFiles !== undefined);
}

type PlanOutcome = Pick<RunReport, 'status' | 'summary' | 'input' | 'isPartlyPlanned'>;

/** Adds up the receipts of a run that has not written its summary. Of one that is running, only what is complete. */
export async function summarySoFar(
  storage: Storage,
  workBucket: string,
  { name, startDate }: FoundRun,
  isRunning: boolean,
): Promise<{ summary: RunSummary; isPartlyPlanned: boolean } | undefined> {
  const builder = new SummaryBuilder({ name, startTime: startDate?.toISOString() ?? '' });
  let last: PlanReceipt | undefined;
  for await (const plan of readPlanReceipts(storage, workBucket, name)) {
    builder.addPlan(plan);
    last = plan;
  }
  if (last === undefined) return undefined;
  for await (const { line, state } of readChunks(storage, workBucket, name)) {
    builder.addSpend(state);
    if (line === undefined) continue;
    const { done } = last.options.evaluate ? state.evaluate : state.log;
    if (done !== undefined || !isRunning) builder.addChunk(await withRanges(storage, workBucket, line), state);
    // Nobody writes the reports of its files.
    builder.files.forget();
  }
  const summary = builder.build();
  if (isRunning) summary.status = 'unfinished';
  return { summary, isPartlyPlanned: last.more };
}

const JOB_GOES_ON = new Set(['Submitted', 'Validating', 'Scheduled', 'InProgress', 'Stopping']);

async function openJobs(storage: Storage, workBucket: string, run: string): Promise<string[]> {
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  return (report?.jobs ?? []).filter(({ status }) => JOB_GOES_ON.has(status)).map(({ arn }) => arn);
}
