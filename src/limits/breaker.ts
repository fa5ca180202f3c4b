/**
 * A circuit breaker over all functions of the stack. It opens when a server throttles several calls in a row, or
 * reports that the daily quota is used up. Then no call starts until its time is over. The first function to notice the
 * end sends one trial call: an answer closes the breaker, throttling opens it for twice as long.
 */
import { asNumber, type Clock, expiry, type LimitsTable, realClock, warnOnce } from './table.ts';

export type Breaker = Pick<TableBreaker, keyof TableBreaker>;

/** The breaker opens after this many throttled calls in a row over this time. */
const REQUESTS_REFUSED = { inRow: 5, forMs: 30_000 };
/** The first pause. Each further one is twice as long. */
const PAUSE_MS = 30_000;
const LONGEST_PAUSE_MS = 900_000;
/** A provider that resets its day late, or counts another day than UTC’s, is tried again after this. */
const DAY_RETRY_MS = 3_600_000;
/** A trial call ends within this time, or its function has. */
const TRIAL_MS = 150_000;
/** How long a read of the state is used. */
const READ_MS = 3_000;
/** Days to keep the item. */
const ITEM_DAYS = 3;

/** Milliseconds of the next midnight (UTC). */
const nextDay = (now: number): number => (Math.floor(now / 86_400_000) + 1) * 86_400_000;

interface State {
  until: number;
  /** Number of times in a row that it has opened. */
  level: number;
  /** 1: because the day has no room. */
  forDay: 0 | 1;
}

const CLOSED: State = { until: 0, level: 0, forDay: 0 };

/**
 * One function's view of a circuit breaker.
 *
 * @example
 *     const openUntilMs = await breaker.check();
 *     if (openUntilMs === undefined) await breaker.report((await isAnswered()) ? 'answered' : 'throttled');
 */
export class TableBreaker {
  readonly #table: LimitsTable;
  readonly #name: string;
  readonly #clock: Clock;
  readonly #opensAfter: typeof REQUESTS_REFUSED;
  #state = CLOSED;
  #readAt = Number.NEGATIVE_INFINITY;
  #throttled = { count: 0, since: 0 };
  /** The trial call of this function, while it runs. */
  #trial: PromiseWithResolvers<void> | undefined;
  /** Serializes reads. */
  #reading: Promise<void> | undefined;

  constructor(table: LimitsTable, name: string, clock: Clock = realClock, opensAfter = REQUESTS_REFUSED) {
    this.#table = table;
    this.#name = name;
    this.#clock = clock;
    this.#opensAfter = opensAfter;
  }

  /** Epoch milliseconds until which no call may start, as last seen; `undefined`: calls may start. */
  get openUntilMs(): number | undefined {
    return this.#state.until > this.#clock.now() ? this.#state.until : undefined;
  }

  /** Whether it is open because the provider's daily quota is used up. */
  get forDay(): boolean {
    return this.openUntilMs !== undefined && this.#state.forDay === 1;
  }

  /** Call it before each call. Waits for the end of a trial call. @returns `openUntilMs` */
  async check(): Promise<number | undefined> {
    for (;;) {
      if (this.#trial !== undefined) await this.#trial.promise;
      else if (this.#clock.now() - this.#readAt >= READ_MS) {
        this.#reading ??= this.#read().finally(() => {
          this.#reading = undefined;
        });
        await this.#reading;
      } else if (this.#state.level === 0 || this.openUntilMs !== undefined) return this.openUntilMs;
      else if (await this.#startTrial()) return undefined;
    }
  }

  /** Call it after each call that was checked. */
  async report(kind: 'throttled' | 'perDay' | 'answered' | 'other'): Promise<void> {
    const now = this.#clock.now();
    const trial = this.#trial;
    const { level, forDay } = this.#state;
    if (kind === 'answered') {
      this.#throttled = { count: 0, since: 0 };
      // An answer to an earlier call is no evidence that a used-up daily quota is available again.
      if (level > 0 && (trial !== undefined || forDay === 0)) await this.#write(CLOSED);
    } else if (kind === 'perDay') {
      const until = trial === undefined ? nextDay(now) : Math.min(nextDay(now), now + DAY_RETRY_MS);
      await this.#write({ until, level: level + 1, forDay: 1 });
    } else if (kind === 'throttled') {
      if (this.#throttled.count === 0) this.#throttled.since = now;
      this.#throttled.count += 1;
      const { count, since } = this.#throttled;
      const { inRow, forMs } = this.#opensAfter;
      if (trial !== undefined || (count >= inRow && now - since >= forMs)) await this.#open(now);
    } else if (trial !== undefined) {
      // A trial call that ended in another way decides nothing: the next call is the trial.
      await this.#write({ ...this.#state, until: now });
    }
    if (trial === undefined || trial !== this.#trial) return;
    this.#trial = undefined;
    trial.resolve();
  }

  async #open(now: number): Promise<void> {
    this.#throttled = { count: 0, since: 0 };
    const level = this.#state.level + 1;
    // Exactly twice as long each time would bring functions back together.
    const pause = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** (level - 1)) * (0.75 + Math.random() / 2);
    const next: State = { until: Math.ceil(now + pause), level, forDay: 0 };
    if (this.#trial !== undefined) await this.#write(next, '#until = :before', this.#state.until);
    else await this.#write(next, '(attribute_not_exists(#until) OR #until <= :before)', now);
  }

  /** @returns whether this function may send the call on trial */
  async #startTrial(): Promise<boolean> {
    const before = this.#state;
    // The trial finds out whether the day is over. Until then, others wait without holding a slot.
    const next: State = { ...before, until: this.#clock.now() + TRIAL_MS, forDay: 0 };
    if (!(await this.#write(next, '#until = :before', before.until))) return false;
    this.#trial = Promise.withResolvers<void>();
    return true;
  }

  async #read(): Promise<void> {
    this.#readAt = this.#clock.now();
    const item = await this.#table.get(scopeOf(this.#name)).catch((error: unknown) => {
      warnOnce(`The breaker ${this.#name} is unknown`, error);
      return undefined;
    });
    if (item === undefined) return;
    this.#state = {
      until: asNumber(item.until),
      level: asNumber(item.level),
      forDay: asNumber(item.forDay) === 1 ? 1 : 0,
    };
  }

  /**
   * Writes the state, or reads it soon if another function has changed it.
   *
   * @param condition of the write, with `:before` for the value
   * @returns whether the condition was met. Without the table it is
   */
  async #write(next: State, condition?: string, before?: number): Promise<boolean> {
    const ttl = expiry(this.#clock.now(), ITEM_DAYS);
    const change = {
      scope: scopeOf(this.#name),
      expression: 'SET #until = :until, #level = :level, #forDay = :forDay, #ttl = :ttl',
      condition,
      values: { ...next, ttl, ...(before === undefined ? {} : { before }) },
    };
    const written = await this.#table.update(change).catch((error: unknown) => {
      warnOnce(`The breaker ${this.#name} could not be written`, error);
      return {};
    });
    if (written === undefined) this.#readAt = Number.NEGATIVE_INFINITY;
    else this.#state = next;
    return written !== undefined;
  }
}

const scopeOf = (name: string): string => `breaker#${name}`;
