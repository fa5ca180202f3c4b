/**
 * What the judge has answered in a run, one object a trace in the work bucket. It is written right after the judge has
 * answered, before anything else is tried, and looked at before the judge is asked: so no answer is bought twice, whatever
 * becomes of MLflow or of the function between. Of two chunks that hold the same line one has the claim and asks, and the
 * other takes its answer.
 */
import type { Storage } from '../common/storage.ts';
import { type ChunkRequest, type JudgeSpend, workKeys } from '../contract.ts';
import type { JudgeScorer, Verdict } from '../judge/types.ts';
import { partOf } from './parts.ts';
import { addSpend, emptySpend } from './receipts.ts';

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
  paid: (Attempt & { spend: JudgeSpend })[];
}

/** What is known of a trace, and what this attempt is to ask: it has the claim when `open` is not empty. */
export interface Taken {
  verdicts: Verdict[];
  open: readonly JudgeScorer[];
  entry: Entry;
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
      if (await this.#put(traceId, fresh)) return { verdicts: [], open: scorers, entry: fresh };
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
      if (!isTaken && (await this.#put(traceId, mine, etag))) return { verdicts, open, entry: mine };
      if (isTaken || round === ROUNDS) return { claimedBy: entry.claim?.chunk ?? this.#claim.chunk };
    }
  }

  /** Keeps what was answered and paid, and gives the claim up. */
  async keep(
    traceId: string,
    { entry, open }: Taken,
    judge: string,
    verdicts: readonly Verdict[],
    spend: JudgeSpend,
  ): Promise<void> {
    const versions = new Map(open.map(({ name, version }) => [name, version]));
    const isNew = (name: string): boolean => verdicts.some(({ scorer }) => scorer === name);
    const { run, chunk, requestId } = this.#claim;
    const news = verdicts.map((verdict) => ({ run, version: versions.get(verdict.scorer) ?? '', judge, verdict }));
    const kept: Entry = {
      answers: [...entry.answers.filter(({ verdict }) => !isNew(verdict.scorer)), ...news],
      paid: spend.calls === 0 ? entry.paid : [...entry.paid, { run, chunk, requestId, spend }],
    };
    await this.#storage.putJson(this.#bucket, this.#key(traceId), kept);
  }

  /**
   * What earlier attempts at this chunk have paid that were killed before their receipt. From now on the receipt of this
   * attempt tells it; where this one is killed as well, that of the next.
   */
  async unreported(traceIds: readonly string[]): Promise<JudgeSpend> {
    const total = emptySpend();
    if (!partOf(this.#request).isRepeated) return total;
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
      const paid = entry.paid.map((one) => (found.includes(one) ? { ...one, requestId } : one));
      if (!(await this.#put(traceId, { ...entry, paid }, etag))) return;
      for (const { spend } of found) addSpend(total, spend);
    };
    for (let at = 0; at < traceIds.length; at += READS_AT_ONCE) {
      await Promise.all(traceIds.slice(at, at + READS_AT_ONCE).map(takeOver));
    }
    return total;
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

  #put(traceId: string, entry: Entry, replaces?: string): Promise<boolean> {
    return this.#storage.putJsonIf(this.#bucket, this.#key(traceId), entry, replaces);
  }

  #key(traceId: string): string {
    return workKeys.answer(this.#request.options.answersOf ?? this.#request.run, traceId);
  }
}

function comesBefore(one: readonly number[] = [], other: readonly number[] = []): boolean {
  const [from = 0, kills = 0, attempt = 0] = one;
  const [otherFrom = 0, otherKills = 0, otherAttempt = 0] = other;
  return (from - otherFrom || kills - otherKills || attempt - otherAttempt) < 0;
}
