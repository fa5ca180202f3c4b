/**
 * The answer journal: the judge’s answers of a run, one object per trace in the work bucket.
 *
 * An answer is written as soon as the judge has given it, before anything else, and read before the judge is asked. So no
 * answer is paid twice, even if MLflow or the function fails in between. When two chunks contain the same line, one claims
 * it and asks, and the other reads its answer.
 */

import type { ChunkRequest } from '../../contract/payloads.ts';
import type { JudgeSpend, TakenOver } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import type { JudgeScorer, Verdict } from '../../judge/types.ts';
import { forEachConcurrently } from '../../shared/concurrency.ts';
import { RetryableError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { partOf } from '../chunk/parts.ts';
import { addSpend } from '../counts.ts';

/** An attempt at a chunk. */
interface Attempt {
  run: string;
  chunk: number;
  requestId: string;
}

/** Written by an attempt before it asks the judge. */
interface Claim extends Attempt {
  /** When the attempt started, and when its function has certainly ended; epoch milliseconds. */
  since: number;
  until: number;
  /** The order of the attempt: first line of its part, kills, retries. Unlike the clocks of two functions, it is reliable. */
  order?: readonly number[];
  /** The question goes into a batch job, and no function waits for it. */
  batch?: true;
}

interface Entry {
  /** Absent when no attempt is asking. */
  claim?: Claim;
  answers: { run: string; version: string; judge: string; verdict: Verdict }[];
  /** The cost so far. The receipt of each attempt reports its own part. */
  paid: Paid[];
}

interface Paid extends Attempt {
  spend: JudgeSpend;
  /** The attempts that were to report it before. The first of them is the one that paid. */
  before?: string[];
}

/** The known verdicts of a trace, and the scorers that this attempt must ask about. It owns the claim if there are any. */
interface Taken {
  verdicts: Verdict[];
  open: readonly JudgeScorer[];
  entry: Entry;
  /** The etag of the entry as it was written or read. */
  etag?: string | undefined;
}

/** A round is lost when another attempt writes in between. */
const ROUNDS = 5;
/** Entries that are read at the same time: the 500 of a chunk at 30 ms each take half a second. */
const READS_AT_ONCE = 32;

export class AnswerJournal {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #request: ChunkRequest;
  readonly #claim: Claim;

  /** @param until when this function has certainly ended, epoch milliseconds */
  constructor(storage: Storage, bucket: string, request: ChunkRequest, requestId: string, until: number) {
    const { run, chunk, attempt } = request;
    const { from, kills } = partOf(request);
    this.#storage = storage;
    this.#bucket = bucket;
    this.#request = request;
    const batch = request.phase === 'prepare' ? { batch: true as const } : {};
    this.#claim = {
      run,
      chunk: chunk.chunk,
      requestId,
      since: Date.now(),
      until,
      order: [from, kills, attempt],
      ...batch,
    };
  }

  /** @returns the known verdicts; or the chunk that owns the claim, while its function is asking about the same line */
  async take(
    traceId: string,
    scorers: readonly JudgeScorer[],
    judge: string,
  ): Promise<Taken | { claimedBy: number; open?: never }> {
    const fresh: Entry = { claim: this.#claim, answers: [], paid: [] };
    for (let round = 1; ; round += 1) {
      // Usually there is no entry yet: then the claim is the only request.
      const first = await this.#put(traceId, fresh);
      if (first !== undefined) return { verdicts: [], open: scorers, entry: fresh, etag: first };
      const { entry, etag } = await this.#read(traceId);
      const verdicts = scorers.flatMap(({ name, version }) => {
        const isIt = (answer: Entry['answers'][number]): boolean =>
          answer.verdict.scorer === name &&
          answer.version === version &&
          answer.judge === judge &&
          // A retry asks again about what the earlier run got an error for.
          (answer.verdict.outcome === 'verdict' || answer.run === this.#claim.run);
        return entry.answers.find(isIt)?.verdict ?? [];
      });
      const open = scorers.filter(({ name }) => !verdicts.some(({ scorer }) => scorer === name));
      if (open.length === 0) return { verdicts, open, entry };
      const mine = { ...entry, claim: this.#claim };
      const isTaken = this.#isInForce(entry.claim);
      const put = isTaken ? undefined : await this.#put(traceId, mine, etag);
      if (put !== undefined) return { verdicts, open, entry: mine, etag: put };
      if (isTaken || round === ROUNDS) return { claimedBy: entry.claim?.chunk ?? this.#claim.chunk };
    }
  }

  /**
   * Saves the answers and their cost, and releases the claim. If this attempt was suspended for so long that another attempt
   * presumed it dead, the verdicts of the other attempt stay, and those of this attempt are added.
   */
  async keep(
    traceId: string,
    taken: Taken,
    judge: string,
    verdicts: readonly Verdict[],
    spend: JudgeSpend,
  ): Promise<void> {
    const versions = new Map(taken.open.map(({ name, version }) => [name, version]));
    const { run, chunk, requestId } = this.#claim;
    const answers = verdicts.map((verdict) => ({ run, version: versions.get(verdict.scorer) ?? '', judge, verdict }));
    const paid = spend.calls === 0 ? [] : [{ run, chunk, requestId, spend }];
    let { entry, etag }: { entry: Entry; etag?: string | undefined } = taken;
    for (let round = 1; round <= ROUNDS; round += 1) {
      if ((await this.#put(traceId, this.#with(entry, answers, paid), etag)) !== undefined) return;
      ({ entry, etag } = await this.#read(traceId));
      // A write that seemed to fail succeeded.
      if (entry.paid.some((one) => one.run === run && [...(one.before ?? []), one.requestId][0] === requestId)) return;
    }
    const where = `s3://${this.#bucket}/${this.#key(traceId)}`;
    throw new RetryableError('StorageUnavailable', 'Other attempts kept changing the answer while it was written', {
      where,
    });
  }

  /** Adds answers to the entry. An existing verdict stays. */
  #with(entry: Entry, answers: Entry['answers'], paid: Entry['paid']): Entry {
    const isThere = (one: Entry['answers'][number]): boolean =>
      entry.answers.some((other) => other.verdict.outcome === 'verdict' && isSameQuestion(one, other));
    const news = answers.filter((one) => !isThere(one));
    const isNew = (scorer: string): boolean => news.some(({ verdict }) => verdict.scorer === scorer);
    return {
      ...(entry.claim === undefined || entry.claim.requestId === this.#claim.requestId ? {} : { claim: entry.claim }),
      answers: [...entry.answers.filter(({ verdict }) => !isNew(verdict.scorer)), ...news],
      paid: [...entry.paid, ...paid],
    };
  }

  /**
   * Takes over what earlier attempts at this chunk paid before they were killed without a receipt. From now on the receipt
   * of this attempt reports it, or the receipt of the next attempt if this one is killed too.
   *
   * @param takenOver receives each sum as soon as it is taken over
   */
  async takeOverUnreported(traceIds: readonly string[], takenOver: TakenOver[]): Promise<void> {
    if (!partOf(this.#request).isRepeated) return;
    const { run, chunk, requestId } = this.#claim;
    const receipts: string[] = [];
    for await (const { key } of this.#storage.list(this.#bucket, workKeys.receiptsOfChunk(run, chunk, 'evaluate'))) {
      receipts.push(key);
    }
    const isUnreported = (paid: Attempt): boolean =>
      paid.run === run && paid.chunk === chunk && !receipts.some((key) => key.endsWith(`-${paid.requestId}.json`));
    const takeOver = async (traceId: string): Promise<void> => {
      const { entry, etag } = await this.#read(traceId);
      const found = entry.paid.filter(isUnreported);
      if (found.length === 0) return;
      const fromOf = (one: Paid): string[] => [...(one.before ?? []), one.requestId];
      const paid = entry.paid.map((one) => (found.includes(one) ? { ...one, requestId, before: fromOf(one) } : one));
      const isOurs = async (): Promise<boolean> =>
        (await this.#read(traceId)).entry.paid.some((one) => one.requestId === requestId);
      // A write that seemed to fail may have succeeded. If no attempt reported the money, it would be lost.
      if ((await this.#put(traceId, { ...entry, paid }, etag)) === undefined && !(await isOurs())) return;
      for (const one of found) {
        const from = fromOf(one);
        const known = takenOver.find((other) => other.from.join() === from.join());
        if (known === undefined) takenOver.push({ from, spend: { ...one.spend } });
        else addSpend(known.spend, one.spend);
      }
    };
    await forEachConcurrently(READS_AT_ONCE, traceIds, takeOver);
  }

  /**
   * Returns whether a claim is in force. The claim of an earlier attempt at this chunk is not. The claim of another chunk is,
   * until its function has ended. While jobs are prepared, one chunk asks for all chunks that contain the line; when their
   * answers are applied, all jobs have ended.
   */
  #isInForce(claim: Claim | undefined): boolean {
    if (claim === undefined || claim.requestId === this.#claim.requestId) return false;
    const isOurRun = claim.run === this.#claim.run;
    if (claim.batch) return isOurRun && claim.chunk !== this.#claim.chunk && this.#claim.batch === true;
    const isEarlier = comesBefore(claim.order, this.#claim.order) || claim.since <= this.#claim.since;
    return Date.now() < claim.until && !(isOurRun && claim.chunk === this.#claim.chunk && isEarlier);
  }

  async #read(traceId: string): Promise<{ entry: Entry; etag?: string }> {
    const stored = await this.#storage.getText(this.#bucket, this.#key(traceId));
    if (stored === undefined) return { entry: { answers: [], paid: [] } };
    return { entry: JSON.parse(stored.text) as Entry, etag: stored.etag };
  }

  /** @returns the etag; `undefined` when another attempt has written in between */
  #put(traceId: string, entry: Entry, replaces?: string): Promise<string | undefined> {
    return this.#storage.putJsonIf(this.#bucket, this.#key(traceId), entry, replaces);
  }

  #key(traceId: string): string {
    return workKeys.answer(this.#request.options.answersOf ?? this.#request.run, traceId);
  }
}

const isSameQuestion = (one: Entry['answers'][number], other: Entry['answers'][number]): boolean =>
  one.verdict.scorer === other.verdict.scorer && one.version === other.version && one.judge === other.judge;

function comesBefore(one: readonly number[] = [], other: readonly number[] = []): boolean {
  const [from = 0, kills = 0, attempt = 0] = one;
  const [otherFrom = 0, otherKills = 0, otherAttempt = 0] = other;
  return (from - otherFrom || kills - otherKills || attempt - otherAttempt) < 0;
}
