/**
 * The answer journal: the judge’s answers of a run, in segments by chunk in the work bucket.
 *
 * Answers are saved before they are written to MLflow, together with what they cost, and read before the judge is asked
 * again. So an answer that was saved is not paid twice, even if MLflow or the function fails in between.
 */

import type { Storage } from '../../core/aws/storage.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { EvaluateReceipt, JudgeSpend, TakenOver } from '../../core/contract/receipts.ts';
import { workKeys } from '../../core/contract/work-keys.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { addSpend, emptySpend } from '../counts.ts';
import { isVerdict, KnownAnswers, type NewAnswer } from './known-answers.ts';

export interface KeptAnswer extends NewAnswer {
  /** The request id of the attempt. */
  by: string;
}

/**
 * A function that is killed loses at most this many answers, or those of this time. A batch of captures is saved when it is
 * written, so this is for batches that wait.
 */
const SEGMENT_ANSWERS = 120;
const SEGMENT_MS = 5_000;
/** How long a listing of another chunk’s segments counts as current. */
const LISTED_MS = 1_000;
/** Journals of other runs that are read at the same time. */
const READ_AT_ONCE = 8;

export class AnswerJournal extends KnownAnswers {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #request: ChunkRequest;
  readonly #requestId: string;
  readonly #self: string;
  /** Lines that are not saved yet. */
  #lines: KeptAnswer[] = [];
  #segments = 0;
  #saving: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  readonly #segmentsRead = new Set<string>();
  readonly #listedAtMs = new Map<number, number>();

  constructor(storage: Storage, bucket: string, request: ChunkRequest, requestId: string) {
    super();
    this.#storage = storage;
    this.#bucket = bucket;
    this.#request = request;
    this.#requestId = requestId;
    this.#self = workKeys.chunkOfRun(request.run, request.chunk.chunk);
  }

  /**
   * Reads what earlier attempts at the chunk have saved in this run.
   *
   * @returns what they paid and did not report, because they were killed before their receipt
   */
  async open(): Promise<TakenOver[]> {
    const own: KeptAnswer[] = [];
    for await (const line of this.#read(workKeys.answersOf(this.#self))) {
      super.keep(line);
      own.push(line);
    }
    return own.length === 0 ? [] : this.#unreported(own);
  }

  /**
   * Reads what the runs that this one retries have saved about these traces. Each line of a retried quarantine may be from
   * another chunk, with hundreds of answers about others.
   */
  async openEarlier(traceIds: ReadonlySet<string>): Promise<void> {
    const { chunk, options } = this.#request;
    // With `reevaluate`, an answer of an earlier run counts only if that run re-evaluated too.
    const asksAgain = options.reevaluate && options.continues === undefined;
    const earlier = [...new Set(chunk.ranges.flatMap(({ answersIn = [] }) => answersIn))];
    if (asksAgain) return;
    await forEachConcurrently(READ_AT_ONCE, earlier, async (before) => {
      for await (const line of this.#read(workKeys.answersOf(before))) {
        // The scorers without a verdict are asked again.
        if (traceIds.has(line.trace)) super.keep({ ...line, whole: false, answers: line.answers.filter(isVerdict) });
      }
    });
  }

  async #unreported(own: readonly KeptAnswer[]): Promise<TakenOver[]> {
    const { run, chunk } = this.#request;
    const reported = new Set<string>();
    const receipts = workKeys.receiptsOfChunk(run, chunk.chunk, 'evaluate');
    for await (const { key } of this.#storage.list(this.#bucket, receipts)) {
      const receipt = await this.#storage.getJson<EvaluateReceipt>(this.#bucket, key);
      for (const id of [receipt?.requestId ?? '', ...(receipt?.takenOver ?? []).flatMap(({ from }) => from)]) {
        reported.add(id);
      }
    }
    const sums = new Map<string, JudgeSpend>();
    for (const { by, spend } of own) {
      if (reported.has(by) || spend.calls === 0) continue;
      const sum = sums.get(by) ?? emptySpend();
      addSpend(sum, spend);
      sums.set(by, sum);
    }
    return [...sums].map(([by, spend]) => ({ from: [by], spend }));
  }

  override async answeredIn(chunk: number, ask: string, judge: string): Promise<NewAnswer | undefined> {
    if (Date.now() - (this.#listedAtMs.get(chunk) ?? 0) > LISTED_MS) {
      this.#listedAtMs.set(chunk, Date.now());
      for await (const line of this.#read(workKeys.answersOfChunk(this.#request.run, chunk))) this.learnAsk(line);
    }
    return this.answered(ask, judge);
  }

  /** Adds answers, which are saved soon. */
  override keep(answer: NewAnswer): void {
    super.keep(answer);
    this.#lines.push({ by: this.#requestId, ...answer });
    // A segment that cannot be written now is written by `save`, which throws if it cannot be written then either.
    const saveSoon = () => void this.save().catch(() => undefined);
    if (this.#lines.length >= SEGMENT_ANSWERS) saveSoon();
    else this.#timer ??= setTimeout(saveSoon, SEGMENT_MS).unref();
  }

  /** Saves everything added so far. @throws RetryableError `StorageUnavailable` and other errors of the storage */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#saving = this.#saving.catch(() => undefined).then(() => this.#put());
    return this.#saving;
  }

  async #put(): Promise<void> {
    const lines = this.#lines;
    if (lines.length === 0) return;
    this.#lines = [];
    const { run, chunk, attempt } = this.#request;
    const key = workKeys.answers(run, chunk.chunk, attempt, this.#requestId, this.#segments);
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    try {
      await this.#storage.putText(this.#bucket, key, text, 'application/jsonlines');
      this.#segments += 1;
    } catch (error) {
      this.#lines = [...lines, ...this.#lines];
      throw error;
    }
  }

  /** Yields the answers of segments that were not read before. */
  async *#read(prefix: string): AsyncGenerator<KeptAnswer> {
    for await (const { key } of this.#storage.list(this.#bucket, prefix)) {
      if (this.#segmentsRead.has(key)) continue;
      this.#segmentsRead.add(key);
      const lines = await this.#storage.getJsonLines<KeptAnswer>(this.#bucket, key);
      yield* lines.filter((line) => line.answers !== undefined);
    }
  }
}
