/** The progress of runs: from their executions, and from their objects in the work bucket. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { SFNClient } from '@aws-sdk/client-sfn';
import type { Work } from '../../src/core/aws/storage.ts';
import type { BatchReport, CostEstimate, PlanReceipt, Receipt } from '../../src/core/contract/receipts.ts';
import { areaOf, workKeys } from '../../src/core/contract/work-keys.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import { sum } from '../../src/core/values/sum.ts';
import { chunkState } from '../../src/monitoring/receipts.ts';
import { type RunSummary, SummaryBuilder } from '../../src/monitoring/summary.ts';
import { describeExecution } from './executions.ts';

export type RunProgress = Awaited<ReturnType<ReturnType<typeof runWatcher>>>;

/**
 * Maximum number of receipts that one poll reads. The rest follows with the next poll, and the summary includes all of
 * them.
 */
const MAX_RECEIPTS = 256;
/** Maximum number of objects that one poll lists, in pages of a thousand. */
const MAX_LISTED = 10_000;
const READS_AT_ONCE = 8;
const MAX_MESSAGE_CHARS = 300;

/**
 * Returns a function that returns the progress of a run. Each poll makes one request to Step Functions, a few to S3,
 * and a request for each new receipt, for runs of any length. It never reads the history of the execution.
 *
 * @param name of the run
 * @param arn of its execution
 */
export function runWatcher(sfn: SFNClient, work: Work, { name, arn }: { name: string; arn: string }) {
  const builder = new SummaryBuilder({ name, startTime: '' });
  const newPlans = planReader(work, name);
  const newReceipts = receiptReader(work, name);
  /** Lines by chunk. */
  const linesOf = new Map<number, number>();
  const whole = new Set<number>();
  const failing = new Set<number>();
  const told = new Set<string>();
  let plan: PlanReceipt | undefined;

  function add(receipt: Receipt): void {
    const state = chunkState([receipt]);
    builder.addSpend(state);
    const { chunk, ok } = receipt;
    const { log, evaluate } = state;
    if (log.done !== undefined) linesOf.set(chunk, log.done.counts.lines);
    const evaluates = plan?.options.evaluate ?? true;
    if ((evaluates ? evaluate : log).done !== undefined) whole.add(chunk);
    else if (!ok) failing.add(chunk);
  }

  return async () => {
    const execution = await describeExecution(sfn, arn);
    const plans = await newPlans();
    for (const one of plans) builder.addPlan(one);
    plan = plans.at(-1) ?? plan;
    const receipts = await newReceipts((chunk) => whole.has(chunk));
    for (const receipt of receipts) add(receipt);
    const { lines, chunks, spend, estimate } = builder.sums;
    const { status = 'RUNNING', startDate, error, cause, output } = execution;
    return {
      name,
      arn,
      /** Status of the execution: RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED or PENDING_REDRIVE. */
      status: status as string,
      startedMs: startDate?.getTime() ?? 0,
      /** Present if it failed. */
      error,
      cause,
      /** JSON text, present if it succeeded. */
      output,
      /** `undefined` until the first part is planned. */
      planned: plan && { lines: lines.planned, chunks: chunks.planned, more: plan.more, options: plan.options },
      chunks: {
        done: status === 'SUCCEEDED' ? chunks.planned : whole.size,
        /** Number of chunks with a failed attempt, and without a successful one yet. */
        failing: [...failing].filter((chunk) => !whole.has(chunk)).length,
      },
      /** Lines with an outcome. */
      lines: sum(linesOf.values()),
      /** Dollars for the judge so far, from the receipts; `null` if its price is unknown. */
      usd: spend.usd,
      /** Dollars that planning expects; `null` if the price is unknown. */
      expectedUsd: estimate?.usd,
      /** Number of jobs by status, if there are any. */
      batchJobs: plan?.options.judge === 'batch' ? await batchJobs(work, name) : undefined,
      /** News for the user since the last poll: warnings, and the first attempt that failed with each error. */
      news: [...plans.flatMap(newsOfPlan), ...receipts.flatMap(newsOfReceipt)]
        .filter(([key]) => !told.has(key) && told.add(key))
        .map(([, line]) => line),
    };
  };
}

/** A line for the user, printed once for each key. */
type News = [key: string, line: string];

const newsOfPlan = ({ warnings = [], failedFiles = [] }: PlanReceipt): News[] => [
  ...warnings.map((warning): News => [warning, warning]),
  ...failedFiles.map(({ key, error: { name, message } }): News => [`${name} of a file`, `${key}: ${name}: ${message}`]),
];

function newsOfReceipt({ chunk, step, ok, error, attempt }: Receipt): News[] {
  if (ok || error === undefined) return [];
  const message = error.message.slice(0, MAX_MESSAGE_CHARS);
  const line = `chunk ${chunk} (${step}), attempt ${attempt + 1}: ${error.name}: ${message}`;
  return [[`${step} ${error.name}`, line]];
}

/** Returns a function that reads the receipts of the parts that were planned since its last call. */
function planReader({ storage, workBucket }: Work, run: string) {
  let last = '';
  return async (): Promise<PlanReceipt[]> => {
    const found: PlanReceipt[] = [];
    for await (const { key } of storage.list(workBucket, areaOf('plan', run), last)) {
      const plan = await storage.getJson<PlanReceipt>(workBucket, key);
      if (plan !== undefined) found.push(plan);
      last = key;
    }
    return found;
  };
}

/**
 * Returns a function that reads the receipts that are new since its last call. Chunks end in any order, so the listing
 * begins with the first incomplete chunk. If later receipts fill a poll, the next poll starts after the last receipt.
 */
function receiptReader({ storage, workBucket }: Work, run: string) {
  const known = new Set<string>();
  /** The receipt behind which the next poll starts; empty: at the beginning. */
  let resume = '';
  return async (isWhole: (chunk: number) => boolean): Promise<Receipt[]> => {
    let open = 0;
    while (isWhole(open)) open += 1;
    const after = resume || workKeys.receiptsFrom(run, open);
    resume = '';
    const fresh: string[] = [];
    let listed = 0;
    for await (const { key } of storage.list(workBucket, areaOf('receipts', run), after)) {
      listed += 1;
      if (!known.has(key)) fresh.push(key);
      if (fresh.length < MAX_RECEIPTS && listed < MAX_LISTED) continue;
      resume = key;
      break;
    }
    const read = (key: string) => storage.getJson<Receipt>(workBucket, key);
    const receipts = await Array.fromAsync(inOrder(READS_AT_ONCE, fresh, read));
    for (const key of fresh) known.add(key);
    return receipts.filter((receipt) => receipt !== undefined);
  };
}

async function batchJobs({ storage, workBucket }: Work, run: string): Promise<Record<string, number>> {
  const byStatus: Record<string, number> = {};
  const report = await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run));
  for (const { status } of report?.jobs ?? []) byStatus[status] = (byStatus[status] ?? 0) + 1;
  return byStatus;
}

// ------------------------------------------------------------------------------------- following runs to their end

interface PollResult {
  /** Status of the execution. */
  status: string;
  /** News since the last poll. */
  news: string[];
}

/** Bounds of the time between two polls, which is a fiftieth of the time so far. */
const POLL_MS = { least: 400, most: 10_000 };
const POLL_SHARE = 0.02;

/**
 * Waits until it is time for another poll. @param sinceMs time of the first poll. @throws the reason with which the
 * signal was aborted
 */
export async function untilNextPoll(sinceMs: number, signal?: AbortSignal): Promise<void> {
  const pause = Math.min(POLL_MS.most, Math.max(POLL_MS.least, (Date.now() - sinceMs) * POLL_SHARE));
  await sleep(pause, undefined, { signal }).catch(() => signal?.throwIfAborted());
}

/**
 * Polls executions until all have ended.
 *
 * @param onPoll called after each poll, with every execution
 * @returns the last result of each
 * @throws the reason with which the signal was aborted. The executions continue.
 */
export async function followRuns<T extends PollResult>(
  watchers: readonly (() => Promise<T>)[],
  onPoll: (results: readonly T[]) => void,
  signal?: AbortSignal,
): Promise<T[]> {
  const startedMs = Date.now();
  const results: T[] = [];
  for (;;) {
    for (const [index, poll] of watchers.entries()) {
      signal?.throwIfAborted();
      const last = results[index];
      results[index] = last && hasEnded(last) ? { ...last, news: [] } : await poll();
    }
    onPoll(results);
    if (results.every(hasEnded)) return results;
    await untilNextPoll(startedMs, signal);
  }
}

export const hasEnded = ({ status }: Pick<PollResult, 'status'>): boolean =>
  status !== 'RUNNING' && status !== 'PENDING_REDRIVE';

// --------------------------------------------------------------------------------------------------- expected time

/**
 * Estimates the duration of a run in seconds, by a line through the smallest and the largest of the earlier runs: a
 * constant part, and a part for each call of the judge, or for each line if the judge is not asked.
 *
 * @param earlier summaries of runs of the stack
 * @returns `undefined` unless the larger run took longer
 */
export function expectedSeconds(
  { captures, judgeCalls }: Pick<CostEstimate, 'captures' | 'judgeCalls'>,
  earlier: readonly RunSummary[],
): number | undefined {
  const runs = earlier
    .filter(({ status, options }) => status === 'succeeded' && options?.judge === 'converse')
    .map(({ spend, lines, startedAt, endedAt }) => ({
      units: judgeCalls > 0 ? spend.calls : lines.written,
      seconds: (Date.parse(endedAt) - Date.parse(startedAt)) / 1_000,
    }))
    .filter(({ units }) => units > 0)
    .toSorted((a, b) => a.units - b.units);
  const [first, last] = [runs[0], runs.at(-1)];
  if (!first || !last || last.seconds <= first.seconds || last.units === first.units) return undefined;
  const each = (last.seconds - first.seconds) / (last.units - first.units);
  return Math.max(first.seconds, last.seconds + ((judgeCalls > 0 ? judgeCalls : captures) - last.units) * each);
}
