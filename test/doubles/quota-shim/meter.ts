/** Token buckets, and the counts of what was throttled and served. */
import type { Rate } from './limits.ts';

/** Counts against one limit. */
export interface Usage {
  throttled: number;
  /** Requests, or units such as tokens. */
  served: number;
}

export class Counts {
  readonly limits = new Map<string, Usage>();
  /** Requests by service and operation, such as `s3 PUT <bucket>`. */
  readonly operations = new Map<string, number>();

  of(limit: string): Usage {
    const usage = this.limits.get(limit) ?? { throttled: 0, served: 0 };
    this.limits.set(limit, usage);
    return usage;
  }

  throttled(limit: string): void {
    this.of(limit).throttled += 1;
  }

  served(limit: string, units = 1): void {
    this.of(limit).served += units;
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
