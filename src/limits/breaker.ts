/**
 * A circuit breaker over all functions of the stack. It opens when a server throttles one call after the other, or says that the quota
 * of the day is used up. Then no call starts until its time is over. The first function to notice that sends one call on trial: an
 * answer closes the breaker, throttling opens it for twice as long.
 */
import { type Clock, realClock } from './clock.ts';
import { asNumber, type BudgetTable, type ItemChange } from './table.ts';
import { warnOnce } from './warn-once.ts';

export interface Breaker {
  /** Epoch milliseconds until which no call may start, as last seen; `undefined`: calls may start. */
  readonly openUntilMs: number | undefined;
  /** Whether it is open because the provider's day has no room. */
  readonly forDay: boolean;
  /** Call it before each call. Waits for the end of a trial call. @returns `openUntilMs` */
  check(): Promise<number | undefined>;
  /** Call it after each call that was checked. */
  report(kind: 'throttled' | 'perDay' | 'answered' | 'other'): Promise<void>;
}

/** So many throttled calls in a row, over this time, open the breaker. */
const REQUESTS_REFUSED = { inRow: 5, forMs: 30_000 };
/** The first pause. Each further one is twice as long. */
const PAUSE_MS = 30_000;
const LONGEST_PAUSE_MS = 900_000;
/** A provider that resets its day late, or counts another day than UTC’s, is tried again after this. */
const DAY_RETRY_MS = 3_600_000;
/** A trial call ends within this time, or its function has. */
const TRIAL_MS = 150_000;
/** How long what was read is believed. */
const READ_MS = 3_000;
/** Time to keep the item. */
const TTL_SECONDS = 3 * 24 * 3_600;

/** Milliseconds of the next midnight (UTC). */
export const nextDay = (now: number): number => (Math.floor(now / 86_400_000) + 1) * 86_400_000;

interface State {
  until: number;
  /** How often it has opened in a row. */
  level: number;
  forDay: boolean;
}

const CLOSED: State = { until: 0, level: 0, forDay: false };

export class TableBreaker implements Breaker {
  readonly #table: BudgetTable;
  readonly #scope: string;
  readonly #name: string;
  readonly #clock: Clock;
  readonly #opensAfter: typeof REQUESTS_REFUSED;
  #state = CLOSED;
  #readAt = Number.NEGATIVE_INFINITY;
  #throttled = { count: 0, since: 0 };
  /** The trial call of this function, while it runs. */
  #trial: { until: number; ended: Promise<void>; end(): void } | undefined;
  /** Serializes reads. */
  #reading: Promise<void> | undefined;

  constructor(table: BudgetTable, name: string, clock: Clock = realClock, opensAfter = REQUESTS_REFUSED) {
    this.#table = table;
    this.#name = name;
    this.#scope = `breaker#${name}`;
    this.#clock = clock;
    this.#opensAfter = opensAfter;
  }

  get openUntilMs(): number | undefined {
    return this.#state.until > this.#clock.now() ? this.#state.until : undefined;
  }

  get forDay(): boolean {
    return this.openUntilMs !== undefined && this.#state.forDay;
  }

  async check(): Promise<number | undefined> {
    for (;;) {
      if (this.#trial !== undefined) {
        await this.#trial.ended;
        continue;
      }
      if (this.#clock.now() - this.#readAt >= READ_MS) {
        this.#reading ??= this.#read().finally(() => {
          this.#reading = undefined;
        });
        await this.#reading;
        continue;
      }
      if (this.#state.level === 0 || this.openUntilMs !== undefined) return this.openUntilMs;
      if (await this.#startTrial()) return undefined;
    }
  }

  async report(kind: 'throttled' | 'perDay' | 'answered' | 'other'): Promise<void> {
    const now = this.#clock.now();
    const trial = this.#trial;
    if (kind === 'answered') {
      this.#throttled = { count: 0, since: 0 };
      // An answer to a call from before says nothing about a day that is used up.
      if (this.#state.level > 0 && (trial !== undefined || !this.#state.forDay)) await this.#write(CLOSED);
    } else if (kind === 'perDay') {
      const until = trial === undefined ? nextDay(now) : Math.min(nextDay(now), now + DAY_RETRY_MS);
      await this.#write({ until, level: this.#state.level + 1, forDay: true });
    } else if (kind === 'throttled') {
      if (this.#throttled.count === 0) this.#throttled.since = now;
      this.#throttled.count += 1;
      const { count, since } = this.#throttled;
      if (trial !== undefined || (count >= this.#opensAfter.inRow && now - since >= this.#opensAfter.forMs)) {
        await this.#open(now, trial?.until);
      }
    }
    if (trial === undefined || trial !== this.#trial) return;
    // A call that ended otherwise decides nothing: the next one is the trial.
    if (kind === 'other') await this.#write({ ...this.#state, until: now });
    this.#trial = undefined;
    trial.end();
  }

  async #open(now: number, trialUntil: number | undefined): Promise<void> {
    this.#throttled = { count: 0, since: 0 };
    const level = this.#state.level + 1;
    // Exactly twice as long each time would bring functions back together.
    const pause = Math.min(LONGEST_PAUSE_MS, PAUSE_MS * 2 ** (level - 1)) * (0.75 + Math.random() / 2);
    const next = { until: Math.ceil(now + pause), level, forDay: false };
    const condition = trialUntil === undefined ? '(attribute_not_exists(#until) OR #until <= :now)' : '#until = :now';
    // If another function has opened it, this one reads for how long.
    if (!(await this.#write(next, condition, trialUntil ?? now))) this.#readAt = Number.NEGATIVE_INFINITY;
  }

  /** @returns whether this function may send the trial call */
  async #startTrial(): Promise<boolean> {
    const before = this.#state;
    const until = this.#clock.now() + TRIAL_MS;
    // Whether the day is over is what the trial finds out. Until then, others wait and hold nothing.
    if (!(await this.#write({ ...before, until, forDay: false }, '#until = :now', before.until))) {
      this.#readAt = Number.NEGATIVE_INFINITY;
      return false;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#trial = { until, ended: promise, end: resolve };
    return true;
  }

  async #read(): Promise<void> {
    this.#readAt = this.#clock.now();
    const item = await this.#table.get(this.#scope).catch((error: unknown) => {
      warnOnce(`The breaker ${this.#name} is unknown`, error);
      return undefined;
    });
    if (item === undefined) return;
    this.#state = { until: asNumber(item.until), level: asNumber(item.level), forDay: asNumber(item.forDay) === 1 };
  }

  /** @returns whether the condition was met, with `:now` for `value` */
  async #write(next: State, condition?: string, value = 0): Promise<boolean> {
    const change: ItemChange = {
      scope: this.#scope,
      expression: 'SET #until = :until, #level = :level, #forDay = :forDay, #ttl = :ttl',
      condition,
      values: {
        ...next,
        forDay: next.forDay ? 1 : 0,
        ttl: Math.ceil(this.#clock.now() / 1000) + TTL_SECONDS,
        ...(condition === undefined ? {} : { now: value }),
      },
    };
    const isWritten = await this.#table.update(change).then(
      (changed) => changed !== undefined,
      (error: unknown) => {
        warnOnce(`The breaker ${this.#name} could not be written`, error);
        return true;
      },
    );
    if (isWritten) this.#state = next;
    return isWritten;
  }
}
