/** Token buckets, and the counts of what was asked for, throttled and served. */
import type { Rate } from './limits.ts';

/** Counts against one limit. */
export interface Usage {
  asked: number;
  throttled: number;
  /** Requests, or units such as tokens. */
  served: number;
  /** The units served until then, after each request: pairs of milliseconds since 1970 and units. */
  course: [number, number][];
}

export class Counts {
  readonly limits = new Map<string, Usage>();
  /** Requests by service and operation, such as `s3 PUT <bucket>`. */
  readonly operations = new Map<string, number>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  of(limit: string): Usage {
    const usage = this.limits.get(limit) ?? { asked: 0, throttled: 0, served: 0, course: [] };
    this.limits.set(limit, usage);
    return usage;
  }

  asked(limit: string): void {
    this.of(limit).asked += 1;
  }

  throttled(limit: string): void {
    this.of(limit).throttled += 1;
  }

  served(limit: string, units = 1): void {
    const usage = this.of(limit);
    usage.served += units;
    usage.course.push([this.#now(), usage.served]);
  }

  operation(name: string, units = 1): void {
    this.operations.set(name, (this.operations.get(name) ?? 0) + units);
  }

  forget(): void {
    this.limits.clear();
    this.operations.clear();
  }
}

/** Fills with `perSecond` up to `burst`. It may owe: a request that turns out larger than expected is paid for later. */
export class Bucket {
  readonly #rate: Rate;
  readonly #now: () => number;
  #level: number;
  #at: number;

  constructor(rate: Rate, now: () => number = Date.now) {
    this.#rate = rate;
    this.#now = now;
    this.#level = this.#size;
    this.#at = now();
  }

  get #size(): number {
    return Math.max(1, this.#rate.burst ?? this.#rate.perSecond);
  }

  get level(): number {
    const at = this.#now();
    this.#level = Math.min(this.#size, this.#level + ((at - this.#at) / 1000) * this.#rate.perSecond);
    this.#at = at;
    return this.#level;
  }

  /** Takes the units if they are there. A request above the bucket's size needs a full bucket, as it would never pass else. */
  take(units = 1): boolean {
    if (this.level < Math.min(units, this.#size)) return false;
    this.#level -= units;
    return true;
  }

  /** Takes units that were used already, or gives back (negative) those that were not. */
  correct(units: number): void {
    this.#level = Math.min(this.#size, this.level - units);
  }
}

/** What is served before and after is the beginning and the end of a run, when too little is asked for. */
const STEADY = { from: 0.1, to: 0.9 };

/** The share of a rate that was used in the steady state, while the middle four fifths were served; 0 if that took no time. */
export function usedShare({ served, course }: Usage, perSecond: number): number {
  const at = (share: number): [number, number] => course.find(([, units]) => units >= served * share) ?? [0, 0];
  const [fromMs, before] = at(STEADY.from);
  const [toMs, after] = at(STEADY.to);
  return toMs > fromMs ? (after - before) / (perSecond * ((toMs - fromMs) / 1000)) : 0;
}
