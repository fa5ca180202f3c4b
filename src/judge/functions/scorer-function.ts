/**
 * A scorer that is a function, as the captures of a chunk ask it: collects their records to batches, reserves their cost, and asks the
 * records of a batch without an answer one by one, so that one record costs only its own verdict.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { wordsIn } from '../../core/errors/errors.ts';
import { waitAfter } from '../../core/process/retry.ts';
import type { SpendingLimit } from '../../limits/spending-limit.ts';
import { JUDGE_RETRY } from '../calls/model-caller.ts';
import { type CallLimits, canceledBeforeCall, throughLimits } from '../calls/through-limits.ts';
import { afterAnswers, CallFailure, JudgeHeld, judgingError, OF_FUNCTION } from '../errors.ts';
import { functionSource } from '../scorers/scorer-set.ts';
import { addSpend, emptySpend } from '../spend.ts';
import type { FunctionScorer, JudgeResult } from '../types.ts';
import { MAX_RECORDS, MAX_REQUEST_BYTES } from './contract.ts';
import { type RecordOutcome, readReply, ScorerFault } from './read-reply.ts';

/** Sends a request, and returns the reply. @throws CallFailure; ScorerFault when the function has failed */
export type Invoke = (request: string, signal: AbortSignal) => Promise<string>;

export interface FunctionOptions extends Pick<CallLimits, 'limiter' | 'limits'> {
  invoke: Invoke;
  /** The mark of a run that a record has cost more than it may. Default: of this chunk alone. */
  overPrice?: { isSet(): Promise<boolean>; set(): Promise<void> };
  retry?: Partial<typeof JUDGE_RETRY> | undefined;
  limit?: Pick<SpendingLimit, 'reserve'> | undefined;
  /** Ends the asking. */
  signal: AbortSignal;
}

/** A batch goes when no record has come for this long. Captures in progress come together. */
const PAUSE_MS = 25;
/** Room for the name of the scorer. */
const FRAME_BYTES = 200;
/** Records by which batches grow after an answer. They are halved by one that is not answered. */
const GROWTH = 4;
/** If as many records of a batch fail alone too, the function is at fault, and the others get its error. */
const PROBES = 8;

type Results = ReturnType<typeof readReply>;

interface Waiting {
  record: string;
  spend: JudgeResult['spend'];
  resolve(result: JudgeResult): void;
  reject(error: unknown): void;
}

export class ScorerFunction {
  readonly sourceId: string;
  readonly #scorer: FunctionScorer;
  readonly #options: FunctionOptions;
  readonly #usd: number;
  #queue: Waiting[] = [];
  #queuedBytes = 0;
  #pause: NodeJS.Timeout | undefined;
  #most = MAX_RECORDS;
  #answers = 0;
  /** The error of the function, until it answers again. */
  #broken: ScorerFault | undefined;
  /** The failure that ends the asking. */
  #ended: CallFailure | undefined;

  constructor(scorer: FunctionScorer, options: FunctionOptions) {
    this.sourceId = functionSource(scorer);
    this.#scorer = scorer;
    this.#options = options;
    this.#usd = scorer.asks.usdPerRecord ?? 0;
  }

  /**
   * Asks about a record, together with the records that come at the same time.
   *
   * @param record a `ScorerRecord` as JSON
   * @returns a verdict or an error verdict, and the spend, which a call without an answer adds to
   * @throws RetryableError `ScorerThrottled`, `ScorerUnavailable` or `ChunkOutOfTime`; PermanentError `ScorerRefused`, or `JudgeHeld`
   *   when the budget has no room. The spend before it is `answeredBefore(error).spend`
   *
   * @example
   *     const { verdicts: [verdict] } = await scorerFunction.ask(JSON.stringify(record));
   */
  async ask(record: string): Promise<JudgeResult> {
    const bytes = Buffer.byteLength(record) + 1;
    if (this.#queuedBytes + bytes > MAX_REQUEST_BYTES - FRAME_BYTES) this.#flush();
    const { promise, resolve, reject } = Promise.withResolvers<JudgeResult>();
    this.#queue.push({ record, spend: emptySpend(), resolve, reject });
    this.#queuedBytes += bytes;
    if (this.#queue.length >= this.#most) this.#flush();
    else this.#pause = this.#pause?.refresh() ?? setTimeout(() => this.#flush(), PAUSE_MS);
    return promise;
  }

  #flush(): void {
    clearTimeout(this.#pause);
    this.#pause = undefined;
    this.#queuedBytes = 0;
    void this.#process(this.#queue.splice(0));
  }

  /** Settles every record of a batch. @param startedAt epoch ms of the first attempt */
  async #process(batch: readonly Waiting[], attempt = 1, startedAt = Date.now()): Promise<void> {
    if (batch.length === 0) return;
    try {
      const results = await this.#reserved(batch);
      if (results !== undefined) return this.#settle(batch, results);
      const half = Math.ceil(batch.length / 2);
      await this.#process(batch.slice(0, half));
      await this.#process(batch.slice(half));
    } catch (error) {
      if (error instanceof ScorerFault) return this.#alone(batch, error);
      const isPassing = error instanceof CallFailure && (error.kind === 'throttled' || error.kind === 'unavailable');
      const retry = { ...JUDGE_RETRY, ...this.#options.retry };
      const wait = isPassing ? waitAfter(retry, attempt, error.retryAfterMs) : undefined;
      if (wait !== undefined && Date.now() + wait - startedAt <= retry.forMs && this.#ended === undefined) {
        await sleep(wait, undefined, { signal: this.#options.signal }).catch(() => undefined);
        return this.#process(batch, attempt + 1, startedAt);
      }
      // The budget may have room again.
      if (error instanceof CallFailure && error.kind !== 'held') this.#ended ??= error;
      for (const one of batch)
        one.reject(afterAnswers(this.#named(error) as Error, { verdicts: [], spend: one.spend }));
    }
  }

  /** Asks about the batch. @returns `undefined` if the budget has no room for so many records */
  async #reserved(batch: readonly Waiting[]): Promise<Results | undefined> {
    const { limit, overPrice } = this.#options;
    if (this.#ended === undefined && (await overPrice?.isSet())) this.#ended = OVER_PRICE;
    if (this.#ended !== undefined) throw this.#ended;
    const reserved = await limit?.reserve(batch.length * this.#usd);
    const isHeld = reserved === 'held' && this.#usd > 0;
    if (isHeld && batch.length > 1) return undefined;
    if (isHeld) throw new CallFailure('held', 'The budget leaves no room for the call');
    const sent = { isSent: false };
    let paid = 0;
    try {
      const results = readReply(await this.#send(batch, sent), this.#scorer, batch.length);
      for (const { usd = this.#usd } of results) paid += usd;
      return results;
    } catch (error) {
      const isPaid = error instanceof ScorerFault || (error instanceof CallFailure && error.mayBePaid);
      if (isPaid && sent.isSent) {
        paid = batch.length * this.#usd;
        for (const one of batch) charge(one, this.#usd);
      }
      throw error;
    } finally {
      // A failed report is repeated with a later call or when the limit is closed, which then throws.
      if (reserved !== 'held') await reserved?.settle(paid).catch(() => undefined);
    }
  }

  #send(batch: readonly Waiting[], sent: { isSent: boolean }): Promise<string> {
    const { limiter, limits, invoke, signal } = this.#options;
    const records = batch.map(({ record }) => record).join();
    const { longestRetryAfterMs } = JUDGE_RETRY;
    return throughLimits({ limiter, limits, longestRetryAfterMs }, signal, async () => {
      if (batch.length === 1 && this.#broken !== undefined) throw this.#broken;
      await limits?.tokens?.acquire(1, signal).catch(canceledBeforeCall);
      sent.isSent = true;
      return invoke(`{"scorer":${JSON.stringify(this.#scorer.name)},"records":[${records}]}`, signal);
    });
  }

  #settle(batch: readonly Waiting[], results: Results): void {
    this.#answers += 1;
    this.#broken = undefined;
    this.#most = Math.min(MAX_RECORDS, this.#most + GROWTH);
    for (const [index, one] of batch.entries()) {
      const { usd = this.#usd, ...outcome } = results[index] as Results[number];
      charge(one, usd);
      if (usd > (this.#scorer.asks.usdPerRecord ?? Infinity)) this.#endOverPrice();
      this.#resolve(one, outcome);
    }
  }

  #resolve({ spend, resolve }: Waiting, outcome: RecordOutcome): void {
    const usage = { inputTokens: 0, outputTokens: 0, usd: spend.usd };
    resolve({ verdicts: [{ scorer: this.#scorer.name, usage, ...outcome }], spend });
  }

  #endOverPrice(): void {
    if (this.#ended !== undefined) return;
    this.#ended = OVER_PRICE;
    // Other functions that do not learn of it end it by themselves.
    void this.#options.overPrice?.set().catch(() => undefined);
  }

  /** Asks the records of a batch without an answer one by one. */
  async #alone(batch: readonly Waiting[], fault: ScorerFault): Promise<void> {
    if (batch.length === 1 || this.#broken !== undefined) {
      const error = { code: fault.name, message: [fault.message, ...wordsIn(fault)].join(': ') };
      for (const one of batch) this.#resolve(one, { outcome: 'error', error });
      return;
    }
    this.#most = Math.ceil(batch.length / 2);
    const before = this.#answers;
    await Promise.all(batch.slice(0, PROBES).map((one) => this.#process([one])));
    const rest = batch.slice(PROBES);
    if (rest.length > 0 && this.#answers === before) this.#broken = fault;
    await Promise.all(rest.map((one) => this.#process([one])));
  }

  #named(error: unknown): unknown {
    if (error === OVER_PRICE) return new JudgeHeld({ where: this.sourceId }, error, 'ScorerOverPrice');
    return error instanceof CallFailure ? judgingError(error, this.sourceId, this.#options.signal, OF_FUNCTION) : error;
  }
}

const OVER_PRICE = new CallFailure('held', 'A record has cost more than its maximum');

const charge = ({ spend }: Waiting, usd: number): void =>
  void addSpend(spend, { calls: 1, inputTokens: 0, outputTokens: 0, usd });
