/** The receipts of a run: each attempt writes one; the summary and a retry read them. */

import type { Work } from '../core/aws/storage.ts';
import { parsedLines } from '../core/aws/storage-errors.ts';
import { assertContract } from '../core/contract/contract.ts';
import type { ChunkRequest, ManifestLine } from '../core/contract/payloads.ts';
import type { EvaluateReceipt, JudgeSpend, LogReceipt, PlanReceipt, Receipt } from '../core/contract/receipts.ts';
import { areaOf, workKeys } from '../core/contract/work-keys.ts';
import { toNamedError, wordsIn } from '../core/errors/errors.ts';
import { inOrder } from '../core/process/concurrency.ts';
import { isRedacted } from '../core/settings/redact-setting.ts';
import { addSpend } from '../judge/spend.ts';
import type { ChunkDependencies } from './chunk/attempt.ts';

/** Returns the fields that the receipts of both steps have in common, for an attempt that ends now. */
export function attemptFacts(request: ChunkRequest, requestId: string, startedAt: string, failure: unknown) {
  const { run, chunk, attempt, progress } = request;
  return {
    run,
    chunk: chunk.chunk,
    ...(progress?.kills ? { kills: progress.kills } : {}),
    attempt,
    requestId,
    startedAt,
    endedAt: new Date().toISOString(),
    ok: failure === undefined,
    ...(failure === undefined ? {} : { error: toNamedError(failure) }),
  };
}

/**
 * Makes an attempt, and writes its receipt whether it succeeds or fails.
 *
 * @throws the failure of the attempt, after its receipt is written
 */
export async function withReceipt<R extends Receipt>(
  { storage, environment }: Pick<ChunkDependencies, 'storage' | 'environment'>,
  attempt: { run(): Promise<void>; receipt(failure: unknown): R },
): Promise<R> {
  const failure: unknown = await attempt.run().then(
    () => undefined,
    (error: unknown) => error,
  );
  const receipt = attempt.receipt(failure);
  const names = [receipt.run, receipt.chunk, receipt.step, receipt.attempt, receipt.requestId] as const;
  const { WORK_BUCKET: workBucket } = environment;
  await storage.putJson(workBucket, workKeys.receipt(...names), receipt);
  const words = isRedacted(environment) ? [] : wordsIn(failure);
  // They can quote captures, so that the receipt and the log do not have them. A run can do without.
  if (words.length > 0) await storage.putJson(workBucket, workKeys.words(...names), { words }).catch(() => undefined);
  if (failure !== undefined) throw failure;
  return receipt;
}

/**
 * Small objects in flight while they are read. At 30 ms each, 32 are as many as a function of 1 GB can handle: a read takes
 * 0.8 ms of a whole CPU, so 10,000 receipts take about 13 s.
 */
const READS_AT_ONCE = 32;

/** Reads the receipts of the parts of a plan. @throws PermanentError `ContractChanged` */
export async function* readPlanReceipts(work: Work, run: string): AsyncGenerator<PlanReceipt> {
  for (let part = 0, more = true; more; part += 1) {
    const key = workKeys.plan(run, part);
    const receipt = await work.storage.getJson<PlanReceipt>(work.workBucket, key);
    if (receipt === undefined) return;
    assertContract(receipt, `s3://${work.workBucket}/${key}`);
    yield receipt;
    more = receipt.more;
  }
}

/**
 * Reads the manifests of all parts of a run, one line at a time.
 *
 * @throws PermanentError `ContractChanged`
 */
export async function* readManifest({ storage, workBucket }: Work, run: string): AsyncGenerator<ManifestLine> {
  for await (const { chunk, manifest } of readPlanReceipts({ storage, workBucket }, run)) {
    if (chunk !== undefined) yield chunk;
    if (manifest === undefined) continue;
    // A part has up to 30,000 lines.
    const stored = await storage.getBytes(workBucket, manifest);
    if (stored !== undefined) yield* parsedLines<ManifestLine>(stored.bytes, `s3://${workBucket}/${manifest}`);
  }
}

/** The receipts of one step of a chunk: of its last success, and of its last failure. */
interface StepState<R extends Receipt> {
  done: R | undefined;
  failed: R | undefined;
}

/** The state of one chunk according to its receipts. */
export interface ChunkState {
  log: StepState<LogReceipt>;
  evaluate: StepState<EvaluateReceipt>;
  /** Receipts of all attempts. */
  receipts: readonly Receipt[];
}

const evaluationsIn = (receipts: readonly Receipt[]): EvaluateReceipt[] =>
  receipts.filter((receipt) => receipt.step === 'evaluate');

/** After a kill, attempts are counted from the start. */
const inOrderOf = (a: Receipt, b: Receipt): number =>
  (a.kills ?? 0) - (b.kills ?? 0) ||
  a.attempt - b.attempt ||
  (a.endedAt < b.endedAt ? -1 : Number(a.endedAt > b.endedAt));

function stepOf<R extends Receipt>(receipts: readonly R[]): StepState<R> {
  const sorted = receipts.toSorted(inOrderOf);
  return { done: sorted.findLast(({ ok }) => ok), failed: sorted.findLast(({ ok }) => !ok) };
}

/** @param receipts of a chunk, in any order */
export const chunkState = (receipts: readonly Receipt[]): ChunkState => ({
  log: stepOf(receipts.map((receipt) => (receipt.step === 'log' ? receipt : receipt.log))),
  evaluate: stepOf(evaluationsIn(receipts)),
  receipts,
});

/**
 * Adds the spending of all attempts at a chunk. Each attempt counts once: from its own receipt, or else from a later
 * attempt's receipt. The answers of a batch job were paid once, whichever attempt has read them.
 */
export function addChunkSpend(total: JudgeSpend, { receipts }: ChunkState): void {
  const evaluations = evaluationsIn(receipts);
  const killed = new Map<string, JudgeSpend>();
  for (const [by, spend] of evaluations.flatMap(({ paidByOthers = {} }) => Object.entries(paidByOthers))) {
    if (spend.calls >= (killed.get(by)?.calls ?? 0)) killed.set(by, spend);
  }
  for (const { requestId, spend } of evaluations) {
    killed.delete(requestId);
    addSpend(total, spend);
  }
  for (const spend of killed.values()) addSpend(total, spend);
  const ofBatch = evaluations.find(({ batchSpend }) => batchSpend !== undefined)?.batchSpend;
  if (ofBatch !== undefined) addSpend(total, ofBatch);
}

/**
 * Counts the evaluation attempts without a receipt, up to the last known attempt: killed, timed out or never started.
 */
export function unreportedAttempts({ receipts: all }: ChunkState): number {
  const evaluations = evaluationsIn(all);
  const byKills = Map.groupBy(evaluations, ({ kills = 0 }) => kills);
  let unreported = Math.max(0, ...byKills.keys());
  for (const [before, receipts] of byKills) {
    const attempts = new Set(receipts.map(({ attempt }) => attempt));
    unreported += Math.max(...attempts) + 1 - attempts.size;
    const next = evaluations.filter(({ kills = 0 }) => kills > before).map(({ startedAt }) => startedAt);
    // Killed after its receipt, or only presumed killed: it ended after the next attempt started.
    if (receipts.some(({ ok, endedAt }) => next.some((startedAt) => ok || endedAt > startedAt))) unreported -= 1;
  }
  return unreported;
}

/**
 * Reads the chunks of a run with their receipts, in the order of their ordinals. Both are sorted, so only a few are in
 * memory.
 *
 * @param from the ordinal of the first chunk
 *
 * @example
 *     for await (const { line, state } of readChunks(work, 'r1')) add(line, state);
 */
export async function* readChunks(
  work: Work,
  run: string,
  from = 0,
): AsyncGenerator<{ line: ManifestLine; state: ChunkState }> {
  const { storage, workBucket } = work;
  const startAfter = from === 0 ? undefined : workKeys.receiptsFrom(run, from);
  const objects = storage.list(workBucket, areaOf('receipts', run), startAfter);
  const receipts = inOrder(READS_AT_ONCE, objects, ({ key }) => storage.getJson<Receipt>(workBucket, key));
  try {
    let next = await receipts.next();
    for await (const line of readManifest(work, run)) {
      if (line.chunk < from) continue;
      const own: Receipt[] = [];
      for (; !next.done && (next.value?.chunk ?? 0) <= line.chunk; next = await receipts.next()) {
        if (next.value?.chunk === line.chunk) own.push(next.value);
      }
      yield { line, state: chunkState(own) };
    }
  } finally {
    await receipts.return(undefined);
  }
}
