/**
 * A semaphore over all runs of the stack: how many functions process chunks at the same time, and how many calls of the
 * judge they make together. An item of the table counts the permits of a time window. A function takes its permits for
 * each window in which it runs, before the window begins. So the permits of a function that crashes are free again when
 * the window ends.
 */
import { asNumber, type Clock, expiry, type Item, type LimitsTable, realClock, warnOnce } from './table.ts';

export type Permits = Pick<TableSemaphore, keyof TableSemaphore>;

/** The limiter of a function's calls: the judge's limiter. */
export interface CallLimit {
  readonly active: number;
  max: number;
}

interface SemaphoreOptions {
  table: LimitsTable;
  /** Functions at the same time; 0: any number. */
  functions: number;
  /** Calls of the judge at the same time, in all functions. */
  calls: number;
  /** Absent: this function does not call the judge. */
  limit?: CallLimit | undefined;
  clock?: Clock;
}

export const WINDOW_MS = 10_000;
/** Functions take the permits of the next window in this part of a window, each at a different time. */
const RENEWED = { from: 0.5, to: 0.9 };
/** Target rate of refused attempts per second, over all waiting chunks. */
const REFUSALS_PER_SECOND = 0.5;
/** Seconds, up to a third more or less. An execution may have 25,000 events, and each attempt has nine: they last for a week. */
const LONGEST_WAIT = 225;
const ITEM_DAYS = 1 / 24;

/** How often a permit was refused: in the previous window, and in the `elapsedMs` of the current one. */
type Refusals = Record<'before' | 'now' | 'elapsedMs', number>;

/**
 * Returns for how many seconds work without a permit stays away: 3 or 4 at first, since permits are free soon in a short burst. Later
 * up to twice as long each time while many wait, and down to half as long when few do. Callers that came together do not return
 * together.
 *
 * @param waited for how long it stayed away before, 0 at first
 */
export function waitAfterRefusal(waited: number, { before, now, elapsedMs }: Refusals, random: () => number): number {
  const perSecond = ((before + now) * 1000) / (WINDOW_MS + elapsedMs);
  const change = Math.min(2, Math.max(0.5, perSecond / REFUSALS_PER_SECOND));
  const seconds = Math.min(LONGEST_WAIT, Math.max(3, waited * change));
  return Math.ceil((seconds * (2 + 2 * random())) / 3);
}

/**
 * One function's permits.
 *
 * @example
 *     const permit = await permits.acquire();
 *     if (permit !== 'acquired') return { waitSeconds: permit.waitSeconds };
 */
export class TableSemaphore {
  readonly #options: SemaphoreOptions;
  readonly #clock: Clock;
  /** Maximum number of calls of one function, as set when its limiter was created. */
  readonly #most: number;
  /** The permits for calls, by the window in which this function has them. */
  #held = new Map<number, number>();
  #released = new AbortController();
  #renewal: Promise<void> | undefined;

  constructor(options: SemaphoreOptions) {
    this.#options = options;
    this.#clock = options.clock ?? realClock;
    this.#most = options.limit?.max ?? 0;
  }

  /**
   * @param waited for how many seconds this work has just stayed away
   * @returns `acquired`, or for how long to stay away. Then `release` must not be called
   */
  async acquire(waited = 0): Promise<'acquired' | { waitSeconds: number }> {
    const { functions, calls, limit } = this.#options;
    if (functions === 0 && limit === undefined) return 'acquired';
    const window = this.#window();
    // A function that can never make a call would wait for the others in paid time.
    const most = Math.min(functions || Number.MAX_SAFE_INTEGER, limit ? calls : Number.MAX_SAFE_INTEGER);
    const counted = await this.#add(window, { functions: 1 }, most - 1);
    if (counted === undefined) return { waitSeconds: await this.#refuse(window, waited) };
    const taken = await this.#acquireCalls(window, this.#share(counted));
    this.#held.set(window, taken);
    this.#allow(taken);
    this.#released = new AbortController();
    this.#renewal = this.#renewUntil(this.#released.signal);
    return 'acquired';
  }

  async release(): Promise<void> {
    this.#released.abort();
    await this.#renewal;
    const now = this.#window();
    const held = [...this.#held].filter(([window]) => window >= now);
    this.#held.clear();
    this.#allow(this.#most);
    await Promise.all(held.map(([window, calls]) => this.#add(window, { functions: -1, calls: -calls })));
  }

  async #refuse(window: number, waited: number): Promise<number> {
    const [counted, before] = await Promise.all([this.#add(window, { refusals: 1 }), this.#read(window - 1)]);
    const elapsedMs = this.#clock.now() - window * WINDOW_MS;
    const refusals = { before: asNumber(before.refusals), now: asNumber(counted?.refusals), elapsedMs };
    return waitAfterRefusal(waited, refusals, Math.random);
  }

  #window(): number {
    return Math.floor(this.#clock.now() / WINDOW_MS);
  }

  async #renewUntil(released: AbortSignal): Promise<void> {
    const until = (window: number) => this.#clock.sleep(window * WINDOW_MS - this.#clock.now(), released);
    try {
      for (;;) {
        const window = this.#window();
        await until(window + RENEWED.from + Math.random() * (RENEWED.to - RENEWED.from));
        const next = await this.#renew(window);
        await until(window + 1);
        this.#allow(next);
      }
    } catch (error) {
      if (!released.aborted) throw error;
    }
  }

  /**
   * Takes the permits of the next window. A running function keeps its own permit, whatever the number. @returns the
   * number of calls in the window
   */
  async #renew(window: number): Promise<number> {
    const { calls: most, limit } = this.#options;
    const running = await this.#read(window);
    const own = this.#held.get(window) ?? 0;
    const share = this.#share(running);
    // Others may keep all of theirs, while their calls are in flight.
    const free = Math.max(0, most - asNumber(running.calls));
    const wanted = Math.max(Math.min(share, own + free), limit?.active ?? 0);
    await this.#add(window + 1, { functions: 1 });
    const taken = await this.#acquireCalls(window + 1, wanted);
    this.#held = new Map([
      [window, own],
      [window + 1, taken],
    ]);
    // No further call starts above the share, or, until the next window begins, above the share of that window.
    this.#allow(Math.min(own, share, taken));
    return Math.min(share, taken);
  }

  /** Returns an equal share of the calls among the functions of a window. */
  #share({ functions }: Item): number {
    return Math.max(1, Math.floor(this.#options.calls / Math.max(1, asNumber(functions))));
  }

  /** Takes permits for calls, or as many as there are. @returns how many it got */
  async #acquireCalls(window: number, atMost: number): Promise<number> {
    const { calls: most, limit } = this.#options;
    if (limit === undefined) return this.#most;
    for (let wanted = Math.min(this.#most, atMost); wanted > 0; ) {
      if ((await this.#add(window, { calls: wanted }, most - wanted)) !== undefined) return wanted;
      wanted = Math.min(wanted - 1, most - asNumber((await this.#read(window)).calls));
    }
    return 0;
  }

  #allow(calls: number): void {
    const { limit } = this.#options;
    if (limit !== undefined) limit.max = calls;
  }

  #read(window: number): Promise<Item> {
    return this.#options.table.get(scopeOf(window)).catch(() => ({}));
  }

  /**
   * @param most the first of the counts must not exceed this before
   * @returns the counts; `undefined` if it did. Without a table everybody has a permit
   */
  async #add(window: number, counts: Record<string, number>, most?: number): Promise<Item | undefined> {
    const names = Object.keys(counts);
    const change = {
      scope: scopeOf(window),
      expression: `SET #ttl = :ttl ADD ${names.map((name) => `#${name} :${name}`).join(', ')}`,
      condition: most === undefined ? undefined : `(attribute_not_exists(#${names[0]}) OR #${names[0]} <= :most)`,
      values: { ...counts, ...(most !== undefined && { most }), ttl: expiry(this.#clock.now(), ITEM_DAYS) },
    };
    return this.#options.table.update(change).catch((error: unknown) => {
      warnOnce('The permits of the stack are unknown', error);
      return {};
    });
  }
}

const scopeOf = (window: number): string => `semaphore#${window}`;
