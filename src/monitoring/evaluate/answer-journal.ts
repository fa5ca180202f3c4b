/**
 * What the judge has answered in a run, one object a trace in the work bucket. It is written right after the judge has
 * answered, before anything else is tried, and looked at before the judge is asked: so no answer is bought twice, whatever
 * becomes of MLflow or of the function between. Of two chunks that hold the same line one has the claim and asks, and the
 * other takes its answer.
 */

import type { ChunkRequest } from '../../contract/payloads.ts';
import type { JudgeSpend, TakenOver } from '../../contract/receipts.ts';
import { workKeys } from '../../contract/work-keys.ts';
import type { JudgeScorer, Verdict } from '../../judge/types.ts';
import { forEachConcurrently } from '../../shared/concurrency.ts';
import { RetryableError } from '../../shared/errors.ts';
import type { Storage } from '../../shared/storage.ts';
import { partOf } from '../chunk/parts.ts';
import { addSpend } from '../receipts.ts';

/** An attempt at a chunk. */
interface Attempt {
  run: string;
  chunk: number;
  requestId: string;
}

/** What an attempt leaves before it asks. */
interface Claim extends Attempt {
  /** When the attempt began, and when its function has ended for certain; epoch milliseconds. */
  since: number;
  until: number;
  /** Of the attempt: first line of its part, kills, retries. The clocks of two functions may differ, this does not. */
  order?: readonly number[];
  /** The question is put into a batch job, for which no function waits. */
  batch?: true;
}

interface Entry {
  /** Absent: nobody is asking. */
  claim?: Claim;
  answers: { run: string; version: string; judge: string; verdict: Verdict }[];
  /** What was paid, each part to be told by the receipt of its attempt. */
  paid: Paid[];
}

interface Paid extends Attempt {
  spend: JudgeSpend;
  /** Attempts that were to tell it before, the one that has paid first. */
  before?: string[];
}

/** What is known of a trace, and what this attempt is to ask: it has the claim when `open` is not empty. */
interface Taken {
  verdicts: Verdict[];
  open: readonly JudgeScorer[];
  entry: Entry;
  /** Of the entry as it was put or read. */
  etag?: string | undefined;
}

/** A round is lost when another attempt writes in between. */
const ROUNDS = 5;
/** Entries read at a time: the 500 of a chunk at 30 ms each take half a second. */
const READS_AT_ONCE = 32;

export class AnswerJournal {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #request: ChunkRequest;
  readonly #claim: Claim;

  /** @param until when this function will have ended for certain, epoch milliseconds */
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

  /** @returns what is known; or who has the claim, while another chunk's function is asking about the same line */
  async take(
    traceId: string,
    scorers: readonly JudgeScorer[],
    judge: string,
  ): Promise<Taken | { claimedBy: number; open?: never }> {
    const fresh: Entry = { claim: this.#claim, answers: [], paid: [] };
    for (let round = 1; ; round += 1) {
      // Mostly nobody was here before: then the claim is the only request.
      const first = await this.#put(traceId, fresh);
      if (first !== undefined) return { verdicts: [], open: scorers, entry: fresh, etag: first };
      const { entry, etag } = await this.#read(traceId);
      const verdicts = scorers.flatMap(({ name, version }) => {
        const isIt = (answer: Entry['answers'][number]): boolean =>
          answer.verdict.scorer === name &&
          answer.version === version &&
          answer.judge === judge &&
          // What the run before could not have answered is asked again by its retry.
          (answer.verdict.outcome === 'verdict' || answer.run === this.#claim.run);
        return entry.answers.find(isIt)?.verdict ?? [];
      });
      const open = scorers.filter(({ name }) => !verdicts.some(({ scorer }) => scorer === name));
      if (open.length === 0) return { verdicts, open, entry };
      const mine = { ...entry, claim: this.#claim };
      const isTaken = this.#isUnderWay(entry.claim);
      const put = isTaken ? undefined : await this.#put(traceId, mine, etag);
      if (put !== undefined) return { verdicts, open, entry: mine, etag: put };
      if (isTaken || round === ROUNDS) return { claimedBy: entry.claim?.chunk ?? this.#claim.chunk };
    }
  }

  /**
   * Keeps what was answered and paid, and gives the claim up. Where another attempt has taken this one for dead, since it
   * stood still for long, what that one has left stays, and this one's is put beside it.
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
      // A put that seemed to fail was done.
      if (entry.paid.some((one) => one.run === run && [...(one.before ?? []), one.requestId][0] === requestId)) return;
    }
    const where = `s3://${this.#bucket}/${this.#key(traceId)}`;
    throw new RetryableError('StorageUnavailable', 'The answer kept changing while it was written', { where });
  }

  /** A verdict that is there stays. */
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
   * What earlier attempts at this chunk have paid that were killed before their receipt. From now on the receipt of this
   * attempt tells it; where this one is killed as well, that of the next.
   *
   * @param told gets each sum as soon as it is taken over
   */
  async unreported(traceIds: readonly string[], told: TakenOver[]): Promise<void> {
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
      // A put that seemed to fail may have been done: what nobody tells would be lost.
      if ((await this.#put(traceId, { ...entry, paid }, etag)) === undefined && !(await isOurs())) return;
      for (const one of found) {
        const from = fromOf(one);
        const known = told.find((other) => other.from.join() === from.join());
        if (known === undefined) told.push({ from, spend: { ...one.spend } });
        else addSpend(known.spend, one.spend);
      }
    };
    await forEachConcurrently(READS_AT_ONCE, traceIds, takeOver);
  }

  /**
   * The claim of a chunk's earlier attempt is dead; that of another chunk is not until its function has ended. Where jobs
   * are prepared one chunk's asks for all; when their answers are applied all jobs have ended.
   */
  #isUnderWay(claim: Claim | undefined): boolean {
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

  /** @returns the etag, `undefined` when another has written in between */
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
