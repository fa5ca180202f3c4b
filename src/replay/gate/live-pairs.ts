/** The requests of a running replay beside those of an earlier run, in the order of the schedule. */
import {
  addPair,
  type ComparedData,
  type ComparedValues,
  type PairCounts,
  pairsOf,
  repliesData,
} from '../compare/compared-data.ts';
import type { EarlierReplies } from '../compare/earlier-replies.ts';
import { worseReply } from '../compare/judge-replies.ts';
import type { PairVerdict } from '../compare/pairwise.ts';
import { nothingJudged, ReplyQualityTally } from '../compare/quality.ts';
import type { StoredReply } from '../compare/replies-file.ts';
import { type Outcome, requestName } from '../compare/request-table.ts';
import { type ComparedMetric, METRIC_TAGS, type RunData } from '../compare/run-data.ts';
import { isCancelledOnPurpose, type Measured } from '../measure/measure.ts';
import type { PreparedRequest } from '../request/prepared.ts';

/** A request that the earlier run has too. */
export interface LivePair {
  /** Its name and row in the earlier run. */
  readonly name: string;
  readonly row: number;
  /** Requests of the schedule up to this one, with and without a pair. */
  readonly requests: number;
  /** Absent until the request has ended. */
  after?: { outcome: Outcome; values: Partial<Record<ComparedMetric, number>> };
  /** Both replies, until they are counted. */
  replies?: StoredReply;
  verdict?: PairVerdict;
  /** The request has ended, and the replies are compared. */
  isSettled: boolean;
}

const outcomeOf = (measured: Measured): Outcome =>
  measured.error === undefined ? 'ok' : isCancelledOnPurpose(measured) ? 'cancelled' : 'failed';

/** The value as `profile_export.jsonl` will have it. */
function measuredValue(
  { metrics, error, exchange, scheduledAt }: Measured,
  metric: ComparedMetric,
): number | undefined {
  if (metric !== 'effective_latency') return metrics[metric];
  return error ? undefined : exchange.endAt - scheduledAt;
}

export class LivePairs {
  readonly #before: RunData;
  readonly #earlier: EarlierReplies | undefined;
  readonly #metrics: readonly ComparedMetric[];
  readonly #pairs: LivePair[] = [];
  readonly #byRequest = new WeakMap<PreparedRequest, LivePair>();
  readonly #taken = new Set<number>();
  readonly #tally = new ReplyQualityTally();
  #counted = 0;
  /** Pairs at the front of the schedule that are settled. */
  #front = 0;
  #isOver = false;
  #changed = Promise.withResolvers<void>();

  /**
   * @param before the earlier run, with its requests named (`RequestTable.seal`)
   * @param metrics those that are compared
   * @param earlier the earlier run's replies, if replies are compared
   */
  constructor(before: RunData, metrics: readonly ComparedMetric[], earlier?: EarlierReplies) {
    this.#before = before;
    this.#metrics = metrics;
    this.#earlier = earlier;
  }

  /** Adds a request. Call it in the order of the schedule, before the request is sent. */
  announce(request: PreparedRequest): void {
    const { eventId, file, line, pass, ordinal } = request;
    const name = requestName(eventId, file, line, pass ? `#${pass}` : '');
    // Where several requests of the earlier run share a name, their line was added to it.
    for (const key of [name, `${name}:${line}`]) {
      const row = this.#before.requests.row(key);
      if (row === undefined || this.#taken.has(row)) continue;
      this.#taken.add(row);
      const pair: LivePair = { name: key, row, requests: ordinal + 1, isSettled: false };
      this.#byRequest.set(request, pair);
      this.#pairs.push(pair);
      return;
    }
  }

  /**
   * Keeps what happened to a request.
   *
   * @param stored the reply, if replies are compared
   * @throws PermanentError `NotAReplay` if the earlier reply cannot be read
   */
  async ended(measured: Measured, stored: StoredReply | undefined): Promise<void> {
    const pair = this.#byRequest.get(measured.request);
    if (!pair) return;
    const values: Partial<Record<ComparedMetric, number>> = {};
    for (const metric of this.#metrics) values[metric] = measuredValue(measured, metric);
    pair.after = { outcome: outcomeOf(measured), values };
    try {
      pair.replies = stored && (await this.#earlier?.pair(pair.name, stored));
    } finally {
      pair.isSettled = true;
      this.#wake();
    }
  }

  /** No further request will end. Those that have not ended are no pairs. */
  over(): void {
    this.#isOver = true;
    for (const pair of this.#pairs) pair.isSettled ||= pair.after === undefined;
    this.#wake();
  }

  /** Waits until so many pairs at the front of the schedule are settled. @returns fewer if the replay is over */
  async settled(size: number): Promise<number> {
    for (;;) {
      while (this.#pairs[this.#front]?.isSettled) this.#front++;
      if (this.#front >= size) return size;
      if (this.#isOver && this.#front === this.#pairs.length) return this.#front;
      await this.#changed.promise;
    }
  }

  /** Requests of the schedule up to the last of the first `size` pairs, with and without a pair. */
  requestsUpTo(size: number): number {
    return this.#pairs[size - 1]?.requests ?? 0;
  }

  /** Yields the pairs of a range as they are settled, in the order of the schedule. */
  async *settledBetween(from: number, to: number): AsyncGenerator<LivePair> {
    for (let i = from; i < to && (await this.settled(i + 1)) > i; i++) yield this.#pairs[i] as LivePair;
  }

  /**
   * Compares the first pairs of the schedule.
   *
   * @param size settled pairs; not less than in the call before
   * @param isJudged whether the verdicts of these pairs are there, as far as there are any
   */
  compared(size: number, isJudged: boolean): ComparedData {
    const pairs = this.#pairs.slice(0, size);
    const counts: PairCounts = { requests: 0, cancelled: 0, newlyFailing: 0, newlySucceeding: 0 };
    const failures: ComparedData['failures'] = [
      [0, 0],
      [0, 0],
    ];
    for (const { row, after } of pairs) {
      if (!after) continue;
      const outcomes = [this.#before.requests.outcome(row), after.outcome] as const;
      for (const [i, outcome] of outcomes.entries()) {
        const one = failures[i] as [number, number];
        if (outcome === 'failed') one[0]++;
        if (outcome !== 'cancelled') one[1]++;
      }
      addPair(counts, ...outcomes);
    }
    // Requests without a pair count as not seen.
    const unpaired = this.requestsUpTo(size) - pairs.length;
    failures[1][1] += unpaired;
    const metrics = Object.fromEntries(this.#metrics.map((tag) => [tag, this.#values(tag, pairs, unpaired)]));
    const replies = this.#earlier && repliesData(this.#count(size, isJudged));
    return { failures, pairs: pairsOf(counts), metrics, ...(replies ? { replies } : {}) };
  }

  #values(tag: ComparedMetric, pairs: readonly LivePair[], unpaired: number): ComparedValues {
    const column = METRIC_TAGS.indexOf(tag);
    const [before, after]: [number[], number[]] = [[], []];
    const counts = [0, 0];
    for (const { row, after: found } of pairs) {
      const [then, now] = [this.#before.requests.value(row, column), found?.values[tag] ?? Number.NaN];
      for (const [i, value] of [then, now].entries()) if (!Number.isNaN(value)) counts[i] = (counts[i] ?? 0) + 1;
      if (Number.isNaN(then) || Number.isNaN(now)) continue;
      before.push(then);
      after.push(now);
    }
    const of = Math.max(...counts) + unpaired;
    return { before: Float64Array.from(before), after: Float64Array.from(after), paired: true, of };
  }

  /** Adds the replies up to `size` to the tally, and frees them. */
  #count(size: number, isJudged: boolean): ReplyQualityTally['quality'] {
    const { quality } = this.#tally;
    for (; this.#counted < size; this.#counted++) {
      const pair = this.#pairs[this.#counted];
      if (!pair?.replies) continue;
      this.#tally.add(pair.replies);
      if (pair.verdict) {
        quality.judged ??= nothingJudged();
        quality.judged[pair.verdict.verdict]++;
        const worse = worseReply(pair.replies, pair.verdict);
        if (worse) this.#tally.addJudgedWorse(worse);
      }
      pair.replies = undefined;
    }
    if (isJudged) quality.judged ??= nothingJudged();
    return quality;
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
