/** Reports one run in any state (running, ended, stopped, expired from Step Functions), or a stack's newest runs. */
import type { ExecutionListItem, ExecutionStatus, SFNClient } from '@aws-sdk/client-sfn';
import { type ListedExecutions, listedExecutions } from '../../src/core/aws/executions.ts';
import type { Work } from '../../src/core/aws/storage.ts';
import type { BatchReport, PlanReceipt, QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { replayKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import { summarizeRun } from '../../src/monitoring/summarize-run.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { describeExecution, type FoundExecution, inputText } from './executions.ts';

/** Statuses for listing runs, with Step Functions' names. */
const STATUSES = {
  running: 'RUNNING',
  succeeded: 'SUCCEEDED',
  failed: 'FAILED',
  stopped: 'ABORTED',
  'timed out': 'TIMED_OUT',
} as const satisfies Record<string, ExecutionStatus>;
type ListedStatus = keyof typeof STATUSES;
export const LISTED_STATUSES = Object.keys(STATUSES) as ListedStatus[];

/** Returns the status of an execution in the words of the commands. */
export const statusOfRun = (status: string | undefined): ListedStatus =>
  LISTED_STATUSES.find((name) => STATUSES[name] === status) ?? 'running';

export type RunReport = Awaited<ReturnType<typeof readRunReport>>;

/** A run of the stack, or its remaining data. */
export type FoundRun = Pick<FoundExecution, 'name'> & Partial<FoundExecution>;

/** Reads the report of a run. A run without a summary costs a request for each of its receipts. */
export async function readRunReport(work: Work, found: FoundRun) {
  const { name, executionArn, status, startDate, stopDate, error, cause, input } = found;
  const { storage, workBucket } = work;
  const written = await storage.getJson<RunSummary>(workBucket, workKeys.summary(name));
  const isRunning = statusOfRun(status) === 'running' && executionArn !== undefined;
  const run = { name, startTime: startDate?.toISOString() ?? '' };
  const soFar = written ?? (await summarizeRun(work, run, undefined, { isRunning }));
  const summary = soFar.options === null && written === undefined ? undefined : soFar;
  const asked: unknown = input === undefined ? (summary?.input ?? null) : JSON.parse(input);
  return {
    run: name,
    /** Absent if Step Functions has forgotten the execution, 90 days after its end. */
    arn: executionArn,
    status: executionArn === undefined ? ('forgotten' as const) : statusOfRun(status),
    startedAt: startDate?.toISOString() ?? summary?.startedAt,
    endedAt: stopDate?.toISOString() ?? written?.endedAt,
    error: error === undefined ? undefined : { name: error, message: cause ?? '' },
    /** The request, as text. */
    asked: inputText(asked, summary?.objects),
    input: asked,
    /** Absent if the work bucket has no data of the run any more. */
    summary,
    /** `false`: added up from the receipts so far, since the run has not written its summary. */
    isFinal: written !== undefined,
    /** Set if planning has not finished: a retry includes only planned chunks. */
    quarantined: summary === undefined ? [] : await readReasons(work, summary),
    experimentId: (await storage.getJson<PlanReceipt>(workBucket, workKeys.plan(name, 0)))?.experimentId,
    /** Jobs of batch inference that had not ended when the run last looked. They continue without it, and cost money. */
    openBatchJobs: await openJobs(work, name),
  };
}

/**
 * Returns whether the run's whole input has chunks, or reports of files. Returns `false` if the run ended during
 * planning, so that it can be started again with its input.
 */
export function isPlanned({ status, summary, input }: RunReport): boolean {
  if (status === 'running' || status === 'succeeded' || input === null) return true;
  if (summary === undefined || summary.partlyPlanned) return false;
  return summary.chunks.planned > 0 || summary.failedFiles !== undefined;
}

const JOB_GOES_ON = new Set(['Submitted', 'Validating', 'Scheduled', 'InProgress', 'Stopping']);

async function openJobs({ storage, workBucket }: Work, run: string): Promise<string[]> {
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  return (report?.jobs ?? []).filter(({ status }) => JOB_GOES_ON.has(status)).map(({ arn }) => arn);
}

/** Lines of a run in quarantine for one reason. */
export interface ReasonWithLines {
  reason: string;
  count: number;
  /** The first few of these lines. */
  lines: Pick<QuarantineEntry, 'key' | 'line' | 'reason'>[];
}

/** Lines shown per reason. The others are counted. */
const MAX_LINES_SHOWN = 3;

/** Counts the quarantined lines of a run by reason, and reads the first few of each reason. */
async function readReasons(work: Work, { run, quarantineReasons }: RunSummary): Promise<ReasonWithLines[]> {
  const found = Object.entries(quarantineReasons).map(
    ([reason, count]): ReasonWithLines => ({ reason, count, lines: [] }),
  );
  // Reading ends as soon as it can, since the objects contain the lines themselves.
  const isDone = () => found.every(({ count, lines }) => lines.length >= Math.min(count, MAX_LINES_SHOWN));
  for await (const { entry } of isDone() ? [] : quarantinedEntries(work, run)) {
    const { key, line, reason } = entry;
    const lines = found.find((one) => one.reason === reason.name)?.lines ?? [];
    if (lines.length < MAX_LINES_SHOWN) lines.push({ key, line, reason });
    if (isDone()) break;
  }
  return found.sort((a, b) => b.count - a.count);
}

// ------------------------------------------------------------------------------------------------- the newest runs

type ListOptions = Omit<ListedExecutions, 'status'> & { status?: ListedStatus | undefined };

export type ListedRun = Awaited<ReturnType<typeof listRuns>>[number];
export type ListedReplay = Awaited<ReturnType<typeof listReplays>>[number];

const READS_AT_ONCE = 8;

/** Lists the monitoring runs of the last 90 days, the newest first. A run costs a request or two. */
export const listRuns = (sfn: SFNClient, stateMachineArn: string, work: Work, options: ListOptions) =>
  list(sfn, stateMachineArn, options, async (facts) => {
    const summary = await work.storage.getJson<RunSummary>(work.workBucket, workKeys.summary(facts.run));
    // The summary of a run that planned nothing has no input.
    const asked = summary?.input ?? (await inputOf(sfn, facts.arn));
    // `summary` is absent if the run has not written it.
    return { ...facts, asked: inputText(asked, summary?.objects), summary };
  });

/** Lists the cloud replays of the last 90 days, the newest first. */
export const listReplays = (sfn: SFNClient, stateMachineArn: string, work: Work, options: ListOptions) =>
  list(sfn, stateMachineArn, options, async (facts) => {
    type Figures = { sent: number; requests: number };
    const figures = await work.storage.getJson<Figures>(work.workBucket, replayKeys.figures(facts.run));
    const { target } = ((await inputOf(sfn, facts.arn)) ?? {}) as { target?: Record<string, unknown> };
    return {
      ...facts,
      asked: `to ${Object.values(target ?? {}).join(' ') || 'an unknown target'}`,
      /** Absent until the results are summarized. */
      requests: figures && { sent: figures.sent, planned: figures.requests },
    };
  });

type Facts = ReturnType<typeof factsOf>;

async function list<T extends Facts>(
  sfn: SFNClient,
  stateMachineArn: string,
  options: ListOptions,
  read: (facts: Facts) => Promise<T>,
): Promise<T[]> {
  const { status: only, ...window } = options;
  const found = listedExecutions(sfn, stateMachineArn, { ...window, status: only && STATUSES[only] });
  const all = await Array.fromAsync(inOrder(READS_AT_ONCE, found, (item) => read(factsOf(item))));
  // Step Functions lists the newest first, except for runs of the same moment.
  return all.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
}

const factsOf = ({ name = '', executionArn = '', status, startDate, stopDate }: ExecutionListItem) => ({
  run: name,
  arn: executionArn,
  status: statusOfRun(status),
  startedAt: startDate?.toISOString() ?? '',
  endedAt: stopDate?.toISOString(),
});

const inputOf = async (sfn: SFNClient, arn: string): Promise<unknown> =>
  JSON.parse((await describeExecution(sfn, arn)).input ?? 'null');
