/** The distribution of one metric: a mergeable HDR histogram, with exact count, sum, mean, deviation, minimum and maximum. */
import { HdrHistogram } from './hdr.ts';

export interface DistributionJson {
  count: number;
  sum: number;
  mean: number;
  /** Sum of squared distances from the mean. */
  squares: number;
  min: number;
  max: number;
  /** Non-empty buckets of the histogram: index, count, index, count, … */
  buckets: number[];
}

export const PERCENTILES = [1, 5, 10, 25, 50, 75, 90, 95, 99] as const;

type Summary = Record<
  'avg' | 'p1' | 'p5' | 'p10' | 'p25' | 'p50' | 'p75' | 'p90' | 'p95' | 'p99' | 'min' | 'max' | 'std' | 'count' | 'sum',
  number
>;

export class Distribution {
  readonly #scale: number;
  readonly #lowest: number;
  #histogram = new HdrHistogram();
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
    this.#histogram.record(above > 0 ? Math.round(above * this.#scale) : 0);
  }

  /**
   * Interpolates between the two nearest values, as AIPerf and numpy do. Accurate to 0.1%, and never outside the minimum and
   * the maximum.
   */
  percentile(percent: number): number {
    return this.#at(((this.count - 1) * percent) / 100);
  }

  #at(place: number): number {
    const value = this.#histogram.at(place) / this.#scale + this.#lowest;
    return Math.min(this.max, Math.max(this.min, value));
  }

  /** Percentile over these values and `failed` infinite ones; `undefined` if it is infinite. */
  percentileWithFailed(percent: number, failed: number): number | undefined {
    const place = ((this.count + failed - 1) * percent) / 100;
    return place <= this.count - 1 && this.count > 0 ? this.#at(place) : undefined;
  }

  get std(): number {
    return this.count === 0 ? 0 : Math.sqrt(this.#squares / this.count);
  }

  /** @returns `undefined` if the distribution is empty */
  summary(): Summary | undefined {
    if (this.count === 0) return undefined;
    const percentiles = Object.fromEntries(PERCENTILES.map((percent) => [`p${percent}`, this.percentile(percent)]));
    const { min, max, std, count, sum, mean: avg } = this;
    return { avg, ...percentiles, min, max, std, count, sum } as Summary;
  }

  /** Adds the values of another distribution. */
  merge(other: Distribution): void {
    if (other.count === 0) return;
    const count = this.count + other.count;
    const distance = other.mean - this.mean;
    this.#squares += other.#squares + (distance * distance * this.count * other.count) / count;
    this.mean += (distance * other.count) / count;
    this.count = count;
    this.sum += other.sum;
    this.min = Math.min(this.min, other.min);
    this.max = Math.max(this.max, other.max);
    this.#histogram.merge(other.#histogram);
  }

  /** Returns `[from, to, count]` of the non-empty buckets, with at most `most` buckets of equal width on a logarithmic axis. */
  buckets(most: number): [number, number, number][] {
    if (this.count === 0) return [];
    const low = Math.max(this.min, 1 / this.#scale);
    const high = Math.max(this.max, low * 1.0001);
    const step = (high / low) ** (1 / most);
    const buckets: [number, number, number][] = [];
    let below = 0;
    for (let i = 1; i <= most; i++) {
      const upTo = i === most ? this.count : this.#histogram.countUpTo(low * step ** i * this.#scale);
      if (upTo > below) buckets.push([low * step ** (i - 1), low * step ** i, upTo - below]);
      below = upTo;
    }
    return buckets;
  }

  toJSON(): DistributionJson {
    const { count, sum, mean, min, max } = this;
    return { count, sum, mean, squares: this.#squares, min, max, buckets: this.#histogram.entries().flat() };
  }

  static fromJSON(json: DistributionJson, scale: number, lowest = 0): Distribution {
    const distribution = new Distribution(scale, lowest);
    distribution.count = json.count;
    distribution.sum = json.sum;
    distribution.mean = json.mean;
    distribution.#squares = json.squares;
    distribution.min = json.min;
    distribution.max = json.max;
    distribution.#histogram = HdrHistogram.ofEntries(json.buckets);
    return distribution;
  }
}
