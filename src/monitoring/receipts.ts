/** Receipts of a run: written by each attempt, read by the summary and by a retry. */

import type { ChunkRequest, ManifestLine } from '../contract/payloads.ts';
import {
  type EvaluateReceipt,
  type JudgeSpend,
  type LogCounts,
  type LogReceipt,
  type PlanReceipt,
  type QuarantineEntry,
  type Receipt,
  VERDICT_TERMS,
  type VerdictCounts,
} from '../contract/receipts.ts';
import { workKeys } from '../contract/work-keys.ts';
import { toNamedError } from '../shared/errors.ts';
import type { Storage } from '../shared/storage.ts';
import { parseStored } from '../shared/storage-errors.ts';
import { entriesOf } from './chunk/kept-lines.ts';
import { partFacts } from './chunk/parts.ts';

export const emptyVerdictCounts = (): VerdictCounts =>
  Object.fromEntries(VERDICT_TERMS.map((term) => [term, 0])) as unknown as VerdictCounts;

export const emptyLogCounts = (): LogCounts => ({
  lines: 0,
  traced: 0,
  written: 0,
  alreadyThere: 0,
  duplicateLine: 0,
  quarantined: 0,
  outsideWindow: 0,
});

/** What the receipts of both steps say of an attempt that ends now. */
export function attemptFacts(request: ChunkRequest, requestId: string, startedAt: string, failure: unknown) {
  const { run, chunk, attempt } = request;
  return {
    run,
    chunk: chunk.chunk,
    ...partFacts(request),
    attempt,
    requestId,
    startedAt,
    endedAt: new Date().toISOString(),
    ok: failure === undefined,
    ...(failure === undefined ? {} : { error: toNamedError(failure) }),
  };
}

export const emptySpend = (): JudgeSpend => ({ calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 });

/** What the parts of a chunk, or the chunks of a file, came to. */
export function sumLogCounts(receipts: readonly LogReceipt[]): LogCounts {
  const total = emptyLogCounts();
  for (const { counts } of receipts) {
    for (const name of Object.keys(total) as (keyof LogCounts)[]) total[name] += counts[name];
  }
  return total;
}

/** Adds `more` to `total`, so many times; a sum with an unknown price in it is unknown. */
export function addSpend(total: JudgeSpend, more: JudgeSpend, times = 1): void {
  total.calls += times * more.calls;
  total.inputTokens += times * more.inputTokens;
  total.outputTokens += times * more.outputTokens;
  total.usd = total.usd === null || more.usd === null ? null : total.usd + times * more.usd;
}

export const verdictTotal = (counts: VerdictCounts): number =>
  VERDICT_TERMS.reduce((total, term) => total + counts[term], 0);

export async function writeReceipt(storage: Storage, workBucket: string, receipt: Receipt): Promise<void> {
  const key = workKeys.receipt(receipt.run, receipt.chunk, receipt.step, receipt.attempt, receipt.requestId);
  await storage.putJson(workBucket, key, receipt);
}

/** Reads this many small objects at a time: at some 30 ms each, 10,000 receipts take 10 s. */
const READS_AT_ONCE = 32;

async function* readAll<T>(storage: Storage, bucket: string, prefix: string): AsyncGenerator<T> {
  let batch: Promise<T | undefined>[] = [];
  for await (const object of storage.list(bucket, prefix)) {
    batch.push(storage.getJson<T>(bucket, object.key));
    if (batch.length < READS_AT_ONCE) continue;
    for (const value of await Promise.all(batch)) if (value !== undefined) yield value;
    batch = [];
  }
  for (const value of await Promise.all(batch)) if (value !== undefined) yield value;
}

export const readPlanReceipts = (storage: Storage, workBucket: string, run: string): AsyncGenerator<PlanReceipt> =>
  readAll(storage, workBucket, workKeys.planPrefix(run));

const readReceipts = (storage: Storage, workBucket: string, run: string): AsyncGenerator<Receipt> =>
  readAll(storage, workBucket, workKeys.receiptPrefix(run));

/** The manifests of all parts, a line at a time. */
export async function* readManifest(storage: Storage, workBucket: string, run: string): AsyncGenerator<ManifestLine> {
  for await (const object of storage.list(workBucket, workKeys.manifestPrefix(run))) {
    const stored = await storage.getText(workBucket, object.key);
    const where = `s3://${workBucket}/${object.key}`;
    for (const line of stored?.text.split('\n') ?? []) if (line !== '') yield parseStored<ManifestLine>(line, where);
  }
}

/** The last successful attempt at each part of a chunk, by the part's first line, and the last one that failed. */
interface StepState<R extends Receipt> {
  done: Map<number, R>;
  failed?: R;
}

/** What is known of one chunk. */
export interface ChunkState {
  log: StepState<LogReceipt>;
  evaluate: StepState<EvaluateReceipt>;
  /** What money and attempts are told by, of every receipt of the evaluation. */
  evaluations: Evaluation[];
}

type Evaluation = Pick<
  EvaluateReceipt,
  'part' | 'attempt' | 'requestId' | 'startedAt' | 'endedAt' | 'ok' | 'takenOver'
>;

export const emptyChunkState = (): ChunkState => ({
  log: { done: new Map() },
  evaluate: { done: new Map() },
  evaluations: [],
});

const fromOf = ({ part }: Pick<Receipt, 'part'>): number => part?.from ?? 0;
const killsOf = ({ part }: Pick<Receipt, 'part'>): number => part?.kills ?? 0;

/** Parts are done in order, and one that killed the function is begun again with one kill more. */
function isLater(a: Receipt, b: Receipt | undefined): boolean {
  if (b === undefined) return true;
  const order = fromOf(a) - fromOf(b) || killsOf(a) - killsOf(b) || a.attempt - b.attempt;
  return order > 0 || (order === 0 && a.endedAt >= b.endedAt);
}

function foldStep<R extends Receipt>(state: StepState<R>, receipt: R): void {
  if (!receipt.ok && isLater(receipt, state.failed)) state.failed = receipt;
  if (receipt.ok && isLater(receipt, state.done.get(fromOf(receipt)))) state.done.set(fromOf(receipt), receipt);
}

/** Folds a receipt into what is known of its chunk. */
export function foldReceipt(state: ChunkState, receipt: Receipt): void {
  if (receipt.step === 'log') {
    foldStep(state.log, receipt);
    return;
  }
  foldStep(state.evaluate, receipt);
  const { part, attempt, requestId, startedAt, endedAt, ok, takenOver } = receipt;
  state.evaluations.push({ attempt, requestId, startedAt, endedAt, ok, part, takenOver });
}

/** What two receipts tell: that of an attempt which was taken for dead and went on, and that of the one which took over. */
export function toldTwice({ evaluations }: ChunkState): JudgeSpend {
  const told = new Set(evaluations.map(({ requestId }) => requestId));
  const total = emptySpend();
  for (const { from, spend } of evaluations.flatMap(({ takenOver = [] }) => takenOver)) {
    if (from.some((requestId) => told.has(requestId))) addSpend(total, spend);
  }
  return total;
}

/**
 * The successful attempts at the parts of a chunk, one after the other from its first line.
 *
 * @returns `whole` when they are about all lines; `error` is what the first part that is missing failed with last, if it
 *   left a receipt
 */
export function partsDone<R extends Receipt>(
  { done, failed }: StepState<R>,
  lines: number,
): { parts: R[]; whole: boolean; error?: R } {
  const parts: R[] = [];
  let from = 0;
  for (let next = done.get(from); next !== undefined && from < lines; next = done.get(from)) {
    parts.push(next);
    from = next.part?.to ?? lines;
  }
  const isMissing = failed !== undefined && fromOf(failed) >= from;
  return { parts, whole: from >= lines, ...(isMissing ? { error: failed } : {}) };
}

/** Attempts to evaluate before the last one known that have left no receipt: killed, timed out or never begun. */
export function unreportedAttempts({ evaluations }: ChunkState): number {
  let unreported = 0;
  for (const ofPart of Map.groupBy(evaluations, fromOf).values()) {
    const byKills = Map.groupBy(ofPart, killsOf);
    const kills = Math.max(...byKills.keys());
    unreported += kills;
    for (const [before, receipts] of byKills) {
      const attempts = new Set(receipts.map(({ attempt }) => attempt));
      unreported += Math.max(...attempts) + 1 - attempts.size;
      const next = ofPart.filter((one) => killsOf(one) > before).map(({ startedAt }) => startedAt);
      // Killed after its receipt, or taken for killed: it ended behind the start of the next one.
      if (receipts.some(({ ok, endedAt }) => next.some((startedAt) => ok || endedAt > startedAt))) unreported -= 1;
    }
  }
  return unreported;
}

export async function chunkStates(
  storage: Storage,
  workBucket: string,
  run: string,
  onReceipt?: (receipt: Receipt) => void,
): Promise<Map<number, ChunkState>> {
  const states = new Map<number, ChunkState>();
  for await (const receipt of readReceipts(storage, workBucket, run)) {
    const state = states.get(receipt.chunk) ?? emptyChunkState();
    states.set(receipt.chunk, state);
    foldReceipt(state, receipt);
    onReceipt?.(receipt);
  }
  return states;
}

/** What the log step has put into quarantine of a chunk so far. */
export async function readQuarantine(
  storage: Storage,
  workBucket: string,
  run: string,
  chunk: number,
): Promise<QuarantineEntry[]> {
  const key = workKeys.quarantine(run, chunk);
  const stored = await storage.getText(workBucket, key);
  return entriesOf(stored?.text ?? '', `s3://${workBucket}/${key}`);
}
