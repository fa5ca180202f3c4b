/**
 * How far runs have come: from their executions, the counts of their Maps, and what they have written to the work
 * bucket. Each look makes few requests, however long a run is; the history of an execution is never read.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  DescribeMapRunCommand,
  ListMapRunsCommand,
} from '@aws-sdk/client-sfn';
import { Storage } from '../../src/core/aws/storage.ts';
import type { BatchReport, CostEstimate, PlanReceipt, Receipt } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { inOrder } from '../../src/core/process/concurrency.ts';
import { emptyChunkState, foldReceipt } from '../../src/monitoring/receipts.ts';
import { type RunSummary, SummaryBuilder } from '../../src/monitoring/summary.ts';
import type { AwsClients } from './aws-clients.ts';

export type RunProgress = Awaited<ReturnType<RunWatcher['look']>>;

/** Receipts that one look reads at most. The rest follows with the next look, and the summary has all of them. */
const MAX_RECEIPTS = 256;
/** Pages of a thousand that one look lists at most. */
const MAX_LISTED = 10_000;
const READS_AT_ONCE = 8;
const MAX_MESSAGE_CHARS = 300;

/**
 * Follows one run by its execution, the counts of its Maps, and what it has written to the work bucket. Each look makes
 * few requests, however long the run is; the history of the execution is never read.
 */
export class RunWatcher {
  readonly #clients: Pick<AwsClients, 'sfn'>;
  readonly #storage: Storage;
  readonly #workBucket: string;
  readonly #arn: string;
  readonly #run: string;
  readonly #read = new Set<string>();
  /** By chunk. */
  readonly #linesOf = new Map<number, number>();
  readonly #whole = new Set<number>();
  readonly #maps = new Map<string, { done: number; failed: number; running: boolean }>();
  readonly #told = new Set<string>();
  readonly #builder: SummaryBuilder;
  #plan: PlanReceipt | undefined;
  #lastPlan = '';
  /** The receipt behind which the next look starts; empty: at the beginning. */
  #resume = '';
  #news: string[] = [];
  #lines = 0;

  /** @param run its name, and the ARN of its execution */
  constructor(clients: Pick<AwsClients, 's3' | 'sfn'>, workBucket: string, run: { name: string; arn: string }) {
    this.#clients = clients;
    this.#storage = new Storage(clients.s3);
    this.#workBucket = workBucket;
    this.#run = run.name;
    this.#arn = run.arn;
    this.#builder = new SummaryBuilder({ name: run.name, startTime: '' });
  }

  /** Looks once. Requests: two or three of Step Functions, a few of S3, and those for new receipts. */
  async look() {
    const { sfn } = this.#clients;
    const execution = await sfn.send(new DescribeExecutionCommand({ executionArn: this.#arn }));
    await this.#readPlans();
    await this.#readReceipts();
    await this.#readMaps();
    const batchJobs = await this.#batchJobs();
    const news = this.#news;
    this.#news = [];
    return {
      ...this.#facts(execution),
      /** By status, if there are any. */
      batchJobs,
      /** What is new for a person since the last look: warnings, and the first attempt that failed with each error. */
      news,
    };
  }

  #facts({ status, startDate }: DescribeExecutionCommandOutput) {
    const { lines, chunks: all, spend, estimate } = this.#builder.sums().summary;
    const last = this.#plan;
    const maps = [...this.#maps.values()];
    const chunks =
      maps.length > 0
        ? {
            done: maps.reduce((total, { done }) => total + done, 0),
            failed: maps.reduce((total, { failed }) => total + failed, 0),
          }
        : // A run of one chunk has no Map.
          { done: status === 'RUNNING' ? this.#whole.size : all.planned, failed: 0 };
    return {
      run: this.#run,
      /** Of the execution: RUNNING, SUCCEEDED, FAILED, TIMED_OUT, ABORTED or PENDING_REDRIVE. */
      status: (status ?? 'RUNNING') as string,
      startedMs: startDate?.getTime() ?? 0,
      /** `undefined` until the first part is planned. */
      planned: last && { lines: lines.planned, chunks: all.planned, more: last.more, options: last.options },
      chunks,
      /** Lines with an outcome. */
      lines: this.#lines,
      /** Dollars for the judge so far, from the receipts; `null` if its price is unknown. */
      usd: spend.usd,
      /** Dollars that planning expects; `null` if the price is unknown. */
      expectedUsd: estimate?.usd,
    };
  }

  async #readPlans(): Promise<void> {
    for await (const { key } of this.#storage.list(this.#workBucket, workKeys.planPrefix(this.#run), this.#lastPlan)) {
      const plan = await this.#storage.getJson<PlanReceipt>(this.#workBucket, key);
      if (plan === undefined) continue;
      this.#lastPlan = key;
      this.#plan = plan;
      this.#builder.addPlan(plan);
      for (const warning of plan.warnings ?? []) this.#tell(warning, warning);
      for (const { key: file, error } of plan.failedFiles ?? [])
        this.#tell(`${error.name} of a file`, `${file}: ${error.name}: ${error.message}`);
    }
  }

  /**
   * Reads new receipts. Chunks end in any order, so the listing begins with the first chunk that is not complete; if those
   * behind it fill a look, the next one starts behind the last receipt.
   */
  async #readReceipts(): Promise<void> {
    const fresh: string[] = [];
    let listed = 0;
    const after = this.#resume || workKeys.receiptsFrom(this.#run, this.#firstOpen());
    this.#resume = '';
    for await (const { key } of this.#storage.list(this.#workBucket, workKeys.receiptPrefix(this.#run), after)) {
      listed += 1;
      if (!this.#read.has(key)) fresh.push(key);
      if (fresh.length < MAX_RECEIPTS && listed < MAX_LISTED) continue;
      this.#resume = key;
      break;
    }
    const read = async (key: string) => ({ key, receipt: await this.#storage.getJson<Receipt>(this.#workBucket, key) });
    for await (const { key, receipt } of inOrder(READS_AT_ONCE, fresh, read)) {
      this.#read.add(key);
      if (receipt !== undefined) this.#take(receipt);
    }
  }

  #firstOpen(): number {
    let chunk = 0;
    while (this.#whole.has(chunk)) chunk += 1;
    return chunk;
  }

  #take(receipt: Receipt): void {
    const { chunk, step, ok, error } = receipt;
    if (!ok && error !== undefined) {
      const message = error.message.slice(0, MAX_MESSAGE_CHARS);
      this.#tell(
        `${step} ${error.name}`,
        `chunk ${chunk} (${step}), attempt ${receipt.attempt + 1}: ${error.name}: ${message}`,
      );
    }
    const state = emptyChunkState();
    foldReceipt(state, receipt);
    this.#builder.addSpend(state);
    const logged = state.log.done;
    if (logged !== undefined) {
      this.#lines += logged.counts.lines - (this.#linesOf.get(chunk) ?? 0);
      this.#linesOf.set(chunk, logged.counts.lines);
    }
    const evaluates = this.#plan?.options.evaluate ?? true;
    if ((evaluates ? state.evaluate : state.log).done !== undefined) this.#whole.add(chunk);
  }

  /** Keeps a line for a person, once for each key. */
  #tell(key: string, line: string): void {
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.#news.push(line);
  }

  /** Reads the counts of the Maps that have not ended, and looks for further ones when all have. */
  async #readMaps(): Promise<void> {
    const { sfn } = this.#clients;
    if (![...this.#maps.values()].some(({ running }) => running)) {
      const { mapRuns = [] } = await sfn.send(new ListMapRunsCommand({ executionArn: this.#arn }));
      for (const { mapRunArn = '' } of mapRuns) {
        // The Map over the answers of batch jobs goes through the same chunks once more.
        if (mapRunArn.includes('/ForEachAnsweredChunk:') || this.#maps.has(mapRunArn)) continue;
        this.#maps.set(mapRunArn, { done: 0, failed: 0, running: true });
      }
    }
    for (const [mapRunArn, known] of this.#maps) {
      if (!known.running) continue;
      const { itemCounts, status } = await sfn.send(new DescribeMapRunCommand({ mapRunArn }));
      const { succeeded = 0, failed = 0, timedOut = 0, aborted = 0 } = itemCounts ?? {};
      const lost = failed + timedOut + aborted;
      this.#maps.set(mapRunArn, { done: succeeded + lost, failed: lost, running: status === 'RUNNING' });
    }
  }

  async #batchJobs(): Promise<Record<string, number> | undefined> {
    if (this.#plan?.options.judge !== 'batch') return undefined;
    const byStatus: Record<string, number> = {};
    const report = await this.#storage.getJson<BatchReport>(this.#workBucket, workKeys.batchJobs(this.#run));
    for (const { status } of report?.jobs ?? []) byStatus[status] = (byStatus[status] ?? 0) + 1;
    return byStatus;
  }
}

// ------------------------------------------------------------------------------------- following runs to their end

interface Look {
  /** Of the execution. */
  status: string;
  /** What is new since the last look. */
  news: string[];
}

interface FollowOptions<T> {
  /** Called after each look, with every execution. */
  onLook(looks: readonly T[]): void;
  signal?: AbortSignal | undefined;
  /** Bounds of the time between two looks, which is a fiftieth of the time so far. Default: 1 s and 10 s. */
  pollMs?: { least: number; most: number };
}

const POLL_MS = { least: 1_000, most: 10_000 };
const POLL_SHARE = 0.02;

/**
 * Returns the last look at each execution.
 *
 * @throws what the signal was aborted with. The executions continue.
 */
export async function followRuns<T extends Look>(
  watchers: readonly { look(): Promise<T> }[],
  { onLook, signal, pollMs = POLL_MS }: FollowOptions<T>,
): Promise<T[]> {
  const watched = watchers.map(untilEnded);
  const startedMs = Date.now();
  for (;;) {
    const looks: T[] = [];
    for (const look of watched) {
      signal?.throwIfAborted();
      looks.push(await look());
    }
    onLook(looks);
    if (looks.every(hasEnded)) return looks;
    const pause = Math.min(pollMs.most, Math.max(pollMs.least, (Date.now() - startedMs) * POLL_SHARE));
    await sleep(pause, undefined, { signal }).catch(() => signal?.throwIfAborted());
  }
}

/** Looks at an execution until it has ended; from then on the last look stands. */
export function untilEnded<T extends Look>(watcher: { look(): Promise<T> }): () => Promise<T> {
  let last: T | undefined;
  return async () => {
    last = last && hasEnded(last) ? { ...last, news: [] } : await watcher.look();
    return last;
  };
}

export const hasEnded = ({ status }: Pick<Look, 'status'>): boolean =>
  status !== 'RUNNING' && status !== 'PENDING_REDRIVE';

// --------------------------------------------------------------------------------------------------- expected time

/**
 * Returns the seconds that a run would take at the pace of the longest of the earlier runs, since short ones are mostly start; the
 * pace of what takes long: calls of the judge, or lines if the judge is not asked.
 *
 * @param earlier summaries of runs of the stack
 * @returns `undefined` if no earlier run tells
 */
export function expectedSeconds(
  { captures, judgeCalls }: Pick<CostEstimate, 'captures' | 'judgeCalls'>,
  earlier: readonly RunSummary[],
): number | undefined {
  const units = ({ spend, lines }: RunSummary): number => (judgeCalls > 0 ? spend.calls : lines.written);
  const [longest] = earlier
    .filter((one) => one.status === 'succeeded' && one.options?.judge === 'converse' && units(one) > 0)
    .sort((a, b) => units(b) - units(a));
  if (longest === undefined) return undefined;
  const seconds = (Date.parse(longest.endedAt) - Date.parse(longest.startedAt)) / 1_000;
  // A run takes a few seconds, however short it is.
  return Math.max(1, (judgeCalls > 0 ? judgeCalls : captures) / units(longest)) * seconds;
}
