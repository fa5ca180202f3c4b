/** The parts of an event simulation: a clock with a queue of events, places that are taken, and rates that are shared. */

type Work = () => void;

/** Runs events in the order of their times. Time is in seconds. */
export class Clock {
  now = 0;
  /** A binary heap, the earliest first; events of the same time in the order in which they were made. */
  readonly #heap: { at: number; n: number; work: Work }[] = [];
  #made = 0;

  at(at: number, work: Work): void {
    const heap = this.#heap;
    this.#made += 1;
    const event = { at: Math.max(at, this.now), n: this.#made, work };
    let index = heap.length;
    heap.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, heap[parent] as typeof event)) break;
      heap[index] = heap[parent] as typeof event;
      index = parent;
    }
    heap[index] = event;
  }

  after(seconds: number, work: Work): void {
    this.at(this.now + seconds, work);
  }

  /** Runs until no event is left, or until the time. */
  run(until = Number.POSITIVE_INFINITY): void {
    for (;;) {
      const first = this.#heap[0];
      if (first === undefined || first.at > until) return;
      this.#drop();
      this.now = first.at;
      first.work();
    }
  }

  #drop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      const right = heap[child + 1];
      if (right !== undefined && isBefore(right, heap[child] as typeof right)) child += 1;
      const next = heap[child] as typeof last;
      if (!isBefore(next, last)) break;
      heap[index] = next;
      index = child;
    }
    heap[index] = last;
  }
}

const isBefore = (a: { at: number; n: number }, b: { at: number; n: number }): boolean =>
  a.at < b.at || (a.at === b.at && a.n < b.n);

/** A quota of concurrent things. What does not fit is refused, or waits in order. */
export class Places {
  taken = 0;
  most = 0;
  refused = 0;
  /** Seconds × places taken. */
  used = 0;
  #since = 0;
  readonly #waiting: Work[] = [];
  readonly #clock: Clock;
  readonly limit: number;

  constructor(clock: Clock, limit: number) {
    this.#clock = clock;
    this.limit = limit;
  }

  take(): boolean {
    if (this.taken >= this.limit) {
      this.refused += 1;
      return false;
    }
    this.#count(1);
    return true;
  }

  takeOrWait(work: Work): void {
    if (this.taken < this.limit) {
      this.#count(1);
      work();
    } else this.#waiting.push(work);
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next) this.#clock.after(0, next);
    else this.#count(-1);
  }

  #count(by: number): void {
    this.used += this.taken * (this.#clock.now - this.#since);
    this.#since = this.#clock.now;
    this.taken += by;
    this.most = Math.max(this.most, this.taken);
  }
}

/** A quota a second, shared by all callers in the order of their requests. */
export class Rate {
  readonly perSecond: number;
  readonly #clock: Clock;
  readonly #burst: number;
  /** When everything that was asked for so far will have been served. */
  #free = 0;
  /** Units served in all. */
  served = 0;
  /** Longest wait, seconds. */
  longest = 0;
  /** Seconds during which somebody waited, and units served meanwhile. */
  waited = 0;
  #first = Number.POSITIVE_INFINITY;
  #last = 0;

  constructor(clock: Clock, perSecond: number, burst = perSecond) {
    this.#clock = clock;
    this.perSecond = perSecond;
    this.#burst = burst;
  }

  /** @returns when the units are served */
  take(units: number): number {
    if (!Number.isFinite(this.perSecond)) return this.#clock.now;
    const { now } = this.#clock;
    const start = Math.max(now - this.#burst / this.perSecond, this.#free);
    this.#free = start + units / this.perSecond;
    this.served += units;
    this.#first = Math.min(this.#first, now);
    this.#last = Math.max(this.#last, this.#free);
    const end = Math.max(now, this.#free);
    const wait = end - now;
    if (wait > 1) this.waited += units / this.perSecond;
    this.longest = Math.max(this.longest, wait);
    return end;
  }

  /** How far the rate is behind, seconds. */
  get behind(): number {
    return Math.max(0, this.#free - this.#clock.now);
  }

  /** The share of the rate that was used from the first to the last unit. */
  get share(): number {
    const seconds = this.#last - this.#first;
    return seconds <= 0 || !Number.isFinite(this.perSecond) ? 0 : Math.min(1, this.served / (seconds * this.perSecond));
  }
}

/** Times weighted by captures, in bins of 5%: enough for quantiles, and as small for a day as for a minute. */
export class Times {
  readonly #bins: number[] = [];
  total = 0;
  most = 0;

  add(seconds: number, weight: number): void {
    const bin = Math.max(0, Math.round(Math.log(Math.max(seconds, 0.01) / 0.01) / Math.log(1.05)));
    this.#bins[bin] = (this.#bins[bin] ?? 0) + weight;
    this.total += weight;
    this.most = Math.max(this.most, seconds);
  }

  /** @returns seconds; `NaN` without any time */
  quantile(q: number): number {
    let seen = 0;
    for (const [bin, weight = 0] of this.#bins.entries()) {
      seen += weight;
      if (seen >= q * this.total && seen > 0) return 0.01 * 1.05 ** bin;
    }
    return Number.NaN;
  }
}
