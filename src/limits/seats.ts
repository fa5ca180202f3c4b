/**
 * Seats for the functions that run at the same time, over all runs of the stack, and for their calls of the judge. An item of the
 * table counts the seats of a time window. A function takes its seats in each window that it runs in; those that stay take
 * theirs before the window begins. So the seats of a function that crashes are free again when the window ends.
 */
import { type Clock, realClock } from './clock.ts';
import { asNumber, type BudgetTable, type Item } from './table.ts';
import { warnOnce } from './warn-once.ts';

export interface Slots {
  /**
   * @param waited how many seconds this work has just stayed away
   * @returns `in`, or for how long to stay away. Then `leave` must not be called
   */
  enter(waited?: number): Promise<'in' | { waitSeconds: number }>;
  leave(): Promise<void>;
}

/** What limits the calls of a function: the judge's limiter. */
export interface CallLimit {
  readonly active: number;
  max: number;
}

interface SeatsOptions {
  table: BudgetTable;
  /** Functions at the same time; 0: any number. */
  functions: number;
  /** Calls of the judge at the same time, in all functions; 0: any number. */
  calls: number;
  /** Absent: this function does not call the judge. */
  limit?: CallLimit | undefined;
  clock?: Clock;
}

export const WINDOW_MS = 10_000;
/** The seats of the next window are taken from the middle of this one on, each function at a time of its own. */
const RENEW_FROM = 0.5;
/** Those who wait come so seldom that together they are sent away about so often a second, however many they are. */
const REFUSALS_PER_SECOND = 0.5;
/** Seconds, up to a third more or less. An execution may have 25,000 events, and asks for a seat with nine: they last for a week. */
const LONGEST_WAIT = 225;

/** How often somebody found no seat, in the window before this one and in this one so far. */
export interface Refusals {
  before: number;
  now: number;
  /** Milliseconds of this window that have passed. */
  elapsedMs: number;
}

/**
 * Returns for how many seconds to stay away who finds no seat: 3 or 4 at first, since seats are free soon in a short burst. Later up
 * to twice as long each time while the line is long, and down to half as long when it is short. Those who came together do not
 * return together.
 *
 * @param waited how long it stayed away before, 0 at first
 */
export function seatWait(waited: number, { before, now, elapsedMs }: Refusals, random: () => number): number {
  const perSecond = ((before + now) * 1000) / (WINDOW_MS + elapsedMs);
  const change = Math.min(2, Math.max(0.5, perSecond / REFUSALS_PER_SECOND));
  const seconds = Math.min(LONGEST_WAIT, Math.max(3, waited * change));
  return Math.ceil((seconds * (2 + 2 * random())) / 3);
}
const TTL_SECONDS = 3_600;

/** One window in which this function has seats. */
interface Taken {
  window: number;
  calls: number;
}

export class TableSeats implements Slots {
  readonly #options: SeatsOptions;
  readonly #clock: Clock;
  /** The most calls of one function: as its limiter was made. */
  readonly #most: number;
  #taken: Taken[] = [];
  /** Calls may be waiting for one of these, and nothing else: they keep the process alive until `leave`. */
  #timer: NodeJS.Timeout | undefined;
  #begins: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;

  constructor(options: SeatsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? realClock;
    this.#most = options.limit?.max ?? 0;
  }

  async enter(waited = 0): Promise<'in' | { waitSeconds: number }> {
    const { functions, calls, limit } = this.#options;
    if (functions === 0 && (calls === 0 || limit === undefined)) return 'in';
    const window = this.#window();
    // A function that can never get a call would wait for the others in paid time.
    const most = Math.min(functions || Number.MAX_SAFE_INTEGER, (limit && calls) || Number.MAX_SAFE_INTEGER);
    const seated = await this.#add(
      window,
      { functions: 1 },
      `(attribute_not_exists(#functions) OR #functions < :most)`,
      {
        most,
      },
    );
    if (seated === undefined) return { waitSeconds: await this.#sentAway(window, waited) };
    const taken = { window, calls: await this.#takeCalls(window, this.#share(seated)) };
    this.#taken.push(taken);
    this.#apply(taken.calls);
    this.#schedule();
    return 'in';
  }

  async leave(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#renewing;
    clearTimeout(this.#timer);
    clearTimeout(this.#begins);
    const taken = this.#taken;
    this.#taken = [];
    this.#apply(this.#most);
    const now = this.#window();
    await Promise.all(
      taken
        .filter(({ window }) => window >= now)
        .map(({ window, calls }) => this.#add(window, { functions: -1, calls: -calls })),
    );
  }

  async #sentAway(window: number, waited: number): Promise<number> {
    const [counted, before] = await Promise.all([this.#add(window, { refusals: 1 }), this.#read(window - 1)]);
    const refusals = {
      before: asNumber(before.refusals),
      now: asNumber(counted?.refusals),
      elapsedMs: this.#clock.now() - window * WINDOW_MS,
    };
    return seatWait(waited, refusals, Math.random);
  }

  #window(): number {
    return Math.floor(this.#clock.now() / WINDOW_MS);
  }

  #schedule(): void {
    const last = this.#taken.at(-1)?.window ?? this.#window();
    const at = (last + RENEW_FROM + Math.random() * (0.9 - RENEW_FROM)) * WINDOW_MS;
    const renew = async (): Promise<void> => {
      await this.#renew();
      this.#schedule();
    };
    this.#timer = setTimeout(
      () => {
        this.#renewing = renew();
      },
      Math.max(0, at - this.#clock.now()),
    );
  }

  /** Takes the seats of the next window. A function that runs keeps its seat, whatever the number. */
  async #renew(): Promise<void> {
    const window = this.#window();
    const running = await this.#read(window);
    const next = window + 1;
    await this.#add(next, { functions: 1 });
    const { calls: most, limit } = this.#options;
    const now = this.#taken.find((each) => each.window === window);
    const own = now?.calls ?? 0;
    const share = this.#share(running);
    // Others may keep all of theirs, while their calls are in flight.
    const free = Math.max(0, most - asNumber(running.calls));
    const wanted = Math.max(Math.min(share, own + free), limit?.active ?? 0);
    const taken = { window: next, calls: await this.#takeCalls(next, wanted) };
    this.#taken = [...(now === undefined ? [] : [now]), taken];
    // No further call starts above the share, and until the next window begins, above what it will have.
    this.#apply(Math.min(own, share, taken.calls));
    // A renewal that waited for the table may end after the window has begun.
    const begins = Math.max(0, next * WINDOW_MS - this.#clock.now());
    this.#begins = setTimeout(() => {
      if (this.#taken.includes(taken)) this.#apply(Math.min(share, taken.calls));
    }, begins);
  }

  /** Returns an equal share of the calls among the functions of a window. */
  #share({ functions }: Item): number {
    return Math.max(1, Math.floor(this.#options.calls / Math.max(1, asNumber(functions))));
  }

  /** Takes seats for calls, or as many as there are. @returns how many it got */
  async #takeCalls(window: number, atMost: number): Promise<number> {
    const { calls: most, limit } = this.#options;
    if (most === 0 || limit === undefined) return this.#most;
    for (let wanted = Math.min(this.#most, atMost); wanted > 0; ) {
      const condition = '(attribute_not_exists(#calls) OR #calls <= :most)';
      if ((await this.#add(window, { calls: wanted }, condition, { most: most - wanted })) !== undefined) return wanted;
      wanted = Math.min(wanted - 1, most - asNumber((await this.#read(window)).calls));
    }
    return 0;
  }

  #apply(calls: number): void {
    const { limit, calls: most } = this.#options;
    if (limit !== undefined && most > 0) limit.max = calls;
  }

  #read(window: number): Promise<Item> {
    return this.#options.table.get(`seats#${window}`).catch(() => ({}));
  }

  /** @returns the item's numbers; `undefined` if the condition was not met. Without a table everybody has a seat */
  async #add(
    window: number,
    counts: Record<string, number>,
    condition?: string,
    values: Record<string, number> = {},
  ): Promise<Item | undefined> {
    const added = Object.keys(counts).map((name) => `#${name} :${name}`);
    const ttl = Math.ceil(this.#clock.now() / 1000) + TTL_SECONDS;
    const expression = `SET #ttl = :ttl ADD ${added.join(', ')}`;
    const change = { scope: `seats#${window}`, expression, condition, values: { ...counts, ...values, ttl } };
    return this.#options.table.update(change).catch((error: unknown) => {
      warnOnce('The seats of the stack are unknown', error);
      return {};
    });
  }
}
