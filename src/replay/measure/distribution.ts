/**
 * The distribution of one metric: a mergeable histogram, with exact count, sum, mean, deviation, minimum and maximum. It is our
 * own implementation because a run has dozens of them and records into each for every request.
 */

/** Whole numbers below this have a bucket each. */
const EXACT = 2048;
/** Width of the buckets for larger numbers, on a logarithmic scale: the middle of a bucket is off by at most 0.05%. */
const WIDTH = 0.001;

/** Returns the bucket of a whole number of at least 0. */
const bucketOf = (value: number): number =>
  value < EXACT ? value : EXACT + Math.round(Math.log(value / EXACT) / WIDTH);

/** Returns the middle of a bucket. */
const middleOf = (bucket: number): number => (bucket < EXACT ? bucket : EXACT * Math.exp((bucket - EXACT) * WIDTH));

export const PERCENTILES = [1, 5, 10, 25, 50, 75, 90, 95, 99] as const;

type Summary = Record<'avg' | `p${(typeof PERCENTILES)[number]}` | 'min' | 'max' | 'std' | 'count' | 'sum', number>;

/**
 * A histogram of one metric.
 *
 * @example
 *     const latency = new Distribution(1);
 *     latency.add(120);
 *     latency.percentile(95);
 */
export class Distribution {
  readonly #scale: number;
  readonly #lowest: number;
  /** Counts by index of the non-empty buckets. */
  readonly #counts = new Map<number, number>();
  count = 0;
  sum = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  mean = 0;
  #squares = 0;

  /**
   * @param scale values are multiplied by this before they are counted as whole numbers
   * @param lowest the lowest value if it is below 0; the histogram counts from there
   */
  constructor(scale: number, lowest = 0) {
    this.#scale = scale;
    this.#lowest = lowest;
  }

  add(value: number): void {
    this.count++;
    this.sum += value;
    const distance = value - this.mean;
    this.mean += distance / this.count;
    this.#squares += distance * (value - this.mean);
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    const above = value - this.#lowest;
    this.#record(bucketOf(above > 0 ? Math.round(above * this.#scale) : 0), 1);
  }

  #record(bucket: number, times: number): void {
    this.#counts.set(bucket, (this.#counts.get(bucket) ?? 0) + times);
  }

  /** The non-empty buckets in ascending order, with their counts. */
  #sorted(): [number, number][] {
    return [...this.#counts].sort(([a], [b]) => a - b);
  }

  /**
   * Interpolates between the two nearest values, as AIPerf and numpy do. Accurate to 0.1%, and never outside the minimum and
   * the maximum.
   */
  percentile(percent: number): number {
    const place = ((this.count - 1) * percent) / 100;
    const before = Math.floor(place);
    let seen = 0;
    let start: number | undefined;
    for (const [bucket, count] of this.#sorted()) {
      seen += count;
      if (seen <= before) continue;
      const value = Math.min(this.max, Math.max(this.min, middleOf(bucket) / this.#scale + this.#lowest));
      if (place === before || seen > before + 1) return value + (before + 1 - place) * ((start ?? value) - value);
      start = value;
    }
    return start ?? 0;
  }

  /** @returns `undefined` if the distribution is empty */
  summary(): Summary | undefined {
    if (this.count === 0) return undefined;
    const percentiles = Object.fromEntries(PERCENTILES.map((percent) => [`p${percent}`, this.percentile(percent)]));
    const { min, max, count, sum, mean: avg } = this;
    const std = Math.sqrt(this.#squares / count);
    return { avg, ...percentiles, min, max, std, count, sum } as Summary;
  }

  /** Adds the values of another distribution of the same scale. */
  merge(other: DistributionJson): void {
    if (other.count === 0) return;
    const count = this.count + other.count;
    const distance = other.mean - this.mean;
    this.#squares += other.squares + (distance * distance * this.count * other.count) / count;
    this.mean += (distance * other.count) / count;
    this.count = count;
    this.sum += other.sum;
    this.min = Math.min(this.min, other.min);
    this.max = Math.max(this.max, other.max);
    for (let i = 0; i < other.buckets.length; i += 2) this.#record(other.buckets[i] ?? 0, other.buckets[i + 1] ?? 0);
  }

  /** Returns `[from, to, count]` of the non-empty buckets, with at most `most` buckets of equal width on a logarithmic axis. */
  buckets(most: number): [number, number, number][] {
    if (this.count === 0) return [];
    const low = Math.max(this.min, 1 / this.#scale);
    const high = Math.max(this.max, low * 1.0001);
    const step = (high / low) ** (1 / most);
    const buckets: [number, number, number][] = [];
    for (const [bucket, count] of this.#sorted()) {
      const value = middleOf(bucket) / this.#scale;
      const i = Math.min(most - 1, Math.max(0, Math.floor(Math.log(value / low) / Math.log(step))));
      const from = low * step ** i;
      const last = buckets.at(-1);
      if (last?.[0] === from) last[2] += count;
      else buckets.push([from, low * step ** (i + 1), count]);
    }
    return buckets;
  }

  /**
   * @returns `squares`: the sum of squared distances from the mean; `buckets`: the non-empty buckets of the histogram,
   *   as index, count, index, count, …
   */
  toJSON() {
    const { count, sum, mean, min, max } = this;
    return { count, sum, mean, squares: this.#squares, min, max, buckets: this.#sorted().flat() };
  }
}

export type DistributionJson = ReturnType<Distribution['toJSON']>;
