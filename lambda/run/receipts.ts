/** Receipts of a run: written by each attempt, read by the summary and by a retry. */
import { toNamedError } from '../common/errors.ts';
import { parseStored, type Storage } from '../common/storage.ts';
import {
  type ChunkRequest,
  type EvaluateReceipt,
  type JudgeSpend,
  type LogCounts,
  type LogReceipt,
  type ManifestLine,
  type PlanReceipt,
  type Receipt,
  VERDICT_TERMS,
  type VerdictCounts,
  workKeys,
} from '../contract.ts';

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
export function attemptFacts(
  { run, chunk, attempt }: ChunkRequest,
  requestId: string,
  startedAt: string,
  failure: unknown,
) {
  return {
    run,
    chunk: chunk.chunk,
    attempt,
    requestId,
    startedAt,
    endedAt: new Date().toISOString(),
    ok: failure === undefined,
    ...(failure === undefined ? {} : { error: toNamedError(failure) }),
  };
}

export const emptySpend = (): JudgeSpend => ({ calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 });

/** Adds `more` to `total`; a sum with an unknown price in it is unknown. */
export function addSpend(total: JudgeSpend, more: JudgeSpend): void {
  total.calls += more.calls;
  total.inputTokens += more.inputTokens;
  total.outputTokens += more.outputTokens;
  total.usd = total.usd === null || more.usd === null ? null : total.usd + more.usd;
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

export const readReceipts = (storage: Storage, workBucket: string, run: string): AsyncGenerator<Receipt> =>
  readAll(storage, workBucket, workKeys.receiptPrefix(run));

/** The manifests of all parts, a line at a time. */
export async function* readManifest(storage: Storage, workBucket: string, run: string): AsyncGenerator<ManifestLine> {
  for await (const object of storage.list(workBucket, workKeys.manifestPrefix(run))) {
    const stored = await storage.getText(workBucket, object.key);
    const where = `s3://${workBucket}/${object.key}`;
    for (const line of stored?.text.split('\n') ?? []) if (line !== '') yield parseStored<ManifestLine>(line, where);
  }
}

/** What is known of one chunk: its last successful attempt of each step, and the last error of a step without one. */
export interface ChunkState {
  log?: LogReceipt;
  evaluate?: EvaluateReceipt;
  logError?: LogReceipt;
  evaluateError?: EvaluateReceipt;
  /** Attempts to evaluate that have left a receipt. */
  evaluateAttempts?: Set<number>;
}

const isLater = (a: Receipt, b: Receipt | undefined): boolean =>
  b === undefined || a.attempt > b.attempt || (a.attempt === b.attempt && a.endedAt >= b.endedAt);

/** Folds a receipt into what is known of its chunk. */
export function foldReceipt(state: ChunkState, receipt: Receipt): void {
  if (receipt.step === 'log') {
    if (receipt.ok && isLater(receipt, state.log)) state.log = receipt;
    if (!receipt.ok && isLater(receipt, state.logError)) state.logError = receipt;
  } else {
    state.evaluateAttempts ??= new Set();
    state.evaluateAttempts.add(receipt.attempt);
    if (receipt.ok && isLater(receipt, state.evaluate)) state.evaluate = receipt;
    if (!receipt.ok && isLater(receipt, state.evaluateError)) state.evaluateError = receipt;
  }
}

/** Attempts to evaluate before the last one known that have left no receipt: killed, timed out or never begun. */
export function unreportedAttempts({ evaluateAttempts }: ChunkState): number {
  return evaluateAttempts === undefined ? 0 : Math.max(...evaluateAttempts) + 1 - evaluateAttempts.size;
}

export async function chunkStates(storage: Storage, workBucket: string, run: string): Promise<Map<number, ChunkState>> {
  const states = new Map<number, ChunkState>();
  for await (const receipt of readReceipts(storage, workBucket, run)) {
    const state = states.get(receipt.chunk) ?? {};
    states.set(receipt.chunk, state);
    foldReceipt(state, receipt);
  }
  return states;
}
