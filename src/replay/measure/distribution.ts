/** The distribution of one metric: a mergeable HDR histogram, and exact count, sum, mean, deviation, minimum and maximum. */
import { HdrHistogram } from './hdr.ts';

export interface DistributionJson {
  count: number;
  sum: number;
  mean: number;
  /** Sum of the squared distances from the mean. */
  squares: number;
  min: number;
  max: number;
  /** The histogram's buckets that are not empty: index, count, index, count, … */
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
  #histogram: HdrHistogram;
  count = 0;
  sum = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  mean = 0;
  #squares = 0;

  /**
   * @param scale values are multiplied by it before they are counted as whole numbers
   * @param sparse less memory, slower: for the many small ones of time slices
   * @param lowest value, where it is below 0: the histogram counts from there
   */
  constructor(scale: number, sparse = false, lowest = 0) {
    this.#scale = scale;
    this.#lowest = lowest;
    this.#histogram = new HdrHistogram(sparse);
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
   * As AIPerf and numpy have it: between the two nearest values in proportion. Within 0.1%; never outside the smallest and
   * the largest one.
   */
  percentile(percent: number): number {
    return this.#at(((this.count - 1) * percent) / 100);
  }

  #at(place: number): number {
    const value = this.#histogram.at(place) / this.#scale + this.#lowest;
    return Math.min(this.max, Math.max(this.min, value));
  }

  /** Percentile over these values and `failed` infinite ones; `undefined` where it falls among those. */
  percentileWithFailed(percent: number, failed: number): number | undefined {
    const place = ((this.count + failed - 1) * percent) / 100;
    return place <= this.count - 1 && this.count > 0 ? this.#at(place) : undefined;
  }

  get std(): number {
    return this.count === 0 ? 0 : Math.sqrt(this.#squares / this.count);
  }

  /** `undefined` while it is empty. */
  summary(): Summary | undefined {
    if (this.count === 0) return undefined;
    const percentiles = Object.fromEntries(PERCENTILES.map((percent) => [`p${percent}`, this.percentile(percent)]));
    const { min, max, std, count, sum, mean: avg } = this;
    return { avg, ...percentiles, min, max, std, count, sum } as Summary;
  }

  /** Takes another one's values in, as if they had been added here. */
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

  /** Counts in at most `most` buckets, even on a logarithmic axis: `[from, to, count]` of each that is not empty. */
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
    return { count, sum, mean, squares: this.#squares, min, max, buckets: [...this.#histogram.entries()].flat() };
  }

  static fromJSON(json: DistributionJson, scale: number, sparse = false, lowest = 0): Distribution {
    const distribution = new Distribution(scale, sparse, lowest);
    distribution.count = json.count;
    distribution.sum = json.sum;
    distribution.mean = json.mean;
    distribution.#squares = json.squares;
    distribution.min = json.min;
    distribution.max = json.max;
    distribution.#histogram = HdrHistogram.ofEntries(json.buckets, sparse);
    return distribution;
  }
}
