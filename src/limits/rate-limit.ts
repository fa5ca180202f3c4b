/**
 * A rate limit of requests or tokens, over all functions of the stack. An item of the table has the time at which the
 * next unit is due. A function that needs units moves that time forward and gets the interval before it, in which it
 * spaces its units evenly. So functions are served in order, no request is refused, and together they never exceed the
 * rate. A function asks about once a second, for as many units as it used in the last second. A function that crashes
 * loses at most such a share.
 */
import { asNumber, type Clock, expiry, type LimitsTable, realClock, warnOnce } from './table.ts';

export type RateLimit = Pick<TableRateLimit, keyof TableRateLimit>;

interface RateLimitOptions {
  table: LimitsTable;
  name: string;
  perSecond: number;
  /** Units that are not used this long after their time are lost, so that a pause is not made up for by a burst. */
  keepMs: number;
  /** Items that share the rate: at one write per function and second, one item suffices for several hundred functions. */
  shards?: number;
  clock?: Clock;
  random?: () => number;
}

/** A function asks at most for the units of this time … */
const SHARE_MS = 1_000;
/** … and the item is kept for an hour. */
const ITEM_DAYS = 1 / 24;

/**
 * One function's share of a rate limit.
 *
 * @example
 *     await rate.acquire(1);   // waits until the next request is due
 */
export class TableRateLimit {
  readonly #options: Required<RateLimitOptions>;
  /** Units that were assigned and not used. Negative if more were used than acquired. */
  #left = 0;
  /** Time at which the next unit is due, epoch milliseconds. */
  #dueAt = 0;
  /** Units to ask for. */
  #share = 1;
  #askedAt = 0;
  /** Whether units of the last share were lost because it was larger than this function could use in its time. */
  #hasLost = false;
  /** Whether other functions were waiting when this function last asked. */
  #isBusy = false;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(options: RateLimitOptions) {
    this.#options = { shards: 1, clock: realClock, random: Math.random, ...options };
  }

  /** Waits until `n` units may be used. @throws the signal's reason when it is aborted first */
  acquire(n: number, signal?: AbortSignal): Promise<void> {
    const acquired = this.#queue.then(() => this.#acquire(n, signal));
    this.#queue = acquired.catch(() => {});
    return acquired;
  }

  /** Returns units that were acquired and not used. A negative number: more were used. */
  give(n: number): void {
    this.#advance(-n);
  }

  async #acquire(n: number, signal: AbortSignal | undefined): Promise<void> {
    const { clock, perSecond, keepMs } = this.#options;
    signal?.throwIfAborted();
    const lost = Math.min(this.#left, Math.floor(((clock.now() - keepMs - this.#dueAt) * perSecond) / 1000));
    if (lost > 0) {
      this.#advance(lost);
      this.#hasLost = true;
    }
    while (this.#left < n) await this.#extend(n - this.#left);
    const wait = this.#dueAt - clock.now();
    this.#advance(n);
    if (wait > 0) await clock.sleep(wait, signal);
  }

  #advance(n: number): void {
    this.#left -= n;
    this.#dueAt += (n * 1000) / this.#options.perSecond;
  }

  /** Gets at least `needed` more units. */
  async #extend(needed: number): Promise<void> {
    const { clock, perSecond } = this.#options;
    const now = clock.now();
    // Ask for more if a share lasts less than a second. Ask for fewer if it lasts longer, cannot be used, or keeps
    // others waiting.
    this.#share *= now - this.#askedAt >= SHARE_MS || this.#hasLost ? 0.5 : 1.5;
    this.#hasLost = false;
    this.#share = Math.max(1, Math.min(this.#share, (perSecond * SHARE_MS) / 1000));
    const units = Math.max(needed, Math.round(this.#share));
    this.#askedAt = now;
    const startsAt = await this.#assigned(units);
    if (startsAt - clock.now() > SHARE_MS) this.#share /= 4;
    this.#dueAt = Math.max(this.#dueAt, startsAt - (this.#left * 1000) / perSecond);
    this.#left += units;
  }

  /** Returns the beginning of the interval that is assigned to the units, in epoch milliseconds. */
  async #assigned(units: number): Promise<number> {
    const { table, name, perSecond, shards, clock, random } = this.#options;
    const scope = `rate#${name}#${Math.floor(random() * shards)}`;
    const ms = Math.ceil((units * shards * 1_000_000) / perSecond) / 1000;
    for (;;) {
      const now = clock.now();
      const ttl = expiry(now, ITEM_DAYS);
      const behind = {
        expression: 'SET #ttl = :ttl ADD #dueAt :ms',
        condition: '#dueAt > :now',
        values: { ttl, ms, now },
      };
      const first = {
        expression: 'SET #ttl = :ttl, #dueAt = :next',
        condition: '(attribute_not_exists(#dueAt) OR #dueAt <= :now)',
        values: { ttl, next: now + ms, now },
      };
      try {
        const changed = await table.update({ scope, ...(this.#isBusy ? behind : first) });
        if (changed !== undefined) return asNumber(changed.dueAt) - ms;
        this.#isBusy = !this.#isBusy;
      } catch (error) {
        // Exceeding the rate is better than stopping the pipeline. Each function still observes the rate by itself.
        warnOnce('The rate of the stack is unknown', error);
        return now;
      }
    }
  }
}
