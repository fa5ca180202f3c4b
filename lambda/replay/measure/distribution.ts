/** The distribution of one metric: a mergeable HDR histogram, and exact count, sum, mean, deviation, minimum and maximum. */
import * as hdr from 'hdr-histogram-js';

/** Three significant digits: a percentile is off by 0.1% at most. */
const SIGNIFICANT_DIGITS = 3;

export interface DistributionJson {
  count: number;
  sum: number;
  mean: number;
  /** Sum of the squared distances from the mean. */
  squares: number;
  min: number;
  max: number;
  /** HdrHistogram's V2 compressed encoding, base64: other tools read it too. Values are in `1 / scale` units. */
  histogram: string;
}

export interface Summary {
  avg: number;
  p1: number;
  p5: number;
  p10: number;
  p25: number;
  p50: number;
  p75: number;
  p90: number;
  p95: number;
  p99: number;
  min: number;
  max: number;
  std: number;
  count: number;
  sum: number;
}

export const PERCENTILES = [1, 5, 10, 25, 50, 75, 90, 95, 99] as const;

export class Distribution {
  readonly #scale: number;
  #histogram: hdr.Histogram;
  count = 0;
  sum = 0;
  min = Number.POSITIVE_INFINITY;
  max = Number.NEGATIVE_INFINITY;
  #mean = 0;
  #squares = 0;

  /**
   * @param scale values are multiplied by it before they are counted as whole numbers
   * @param sparse less memory, slower: for the many small ones of time slices
   */
  constructor(scale: number, sparse = false) {
    this.#scale = scale;
    this.#histogram = hdr.build({
      bitBucketSize: sparse ? 'packed' : 32,
      autoResize: true,
      lowestDiscernibleValue: 1,
      highestTrackableValue: 2,
      numberOfSignificantValueDigits: SIGNIFICANT_DIGITS,
      useWebAssembly: false,
    });
  }

  add(value: number): void {
    this.count++;
    this.sum += value;
    const distance = value - this.#mean;
    this.#mean += distance / this.count;
    this.#squares += distance * (value - this.#mean);
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    this.#histogram.recordValue(value > 0 ? Math.round(value * this.#scale) : 0);
  }

  /** Value below which `percent` of the values are, within 0.1%; never outside the smallest and the largest one. */
  percentile(percent: number): number {
    const value = this.#histogram.getValueAtPercentile(percent) / this.#scale;
    return Math.min(this.max, Math.max(this.min, value));
  }

  /** Percentile over these values and `failed` infinite ones; `undefined` where it falls among those. */
  percentileWithFailed(percent: number, failed: number): number | undefined {
    const rank = (percent / 100) * (this.count + failed);
    return rank <= this.count && this.count > 0 ? this.percentile((100 * rank) / this.count) : undefined;
  }

  get mean(): number {
    return this.#mean;
  }

  get std(): number {
    return this.count === 0 ? 0 : Math.sqrt(this.#squares / this.count);
  }

  /** `undefined` while it is empty. */
  summary(): Summary | undefined {
    if (this.count === 0) return undefined;
    const [p1, p5, p10, p25, p50, p75, p90, p95, p99] = PERCENTILES.map((percent) => this.percentile(percent)) as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ];
    const { min, max, std, count, sum } = this;
    return { avg: this.#mean, p1, p5, p10, p25, p50, p75, p90, p95, p99, min, max, std, count, sum };
  }

  /** Takes another one's values in, as if they had been added here. */
  merge(other: Distribution): void {
    if (other.count === 0) return;
    const count = this.count + other.count;
    const distance = other.#mean - this.#mean;
    this.#squares += other.#squares + (distance * distance * this.count * other.count) / count;
    this.#mean += (distance * other.count) / count;
    this.count = count;
    this.sum += other.sum;
    this.min = Math.min(this.min, other.min);
    this.max = Math.max(this.max, other.max);
    (this.#histogram as hdr.Int32Histogram).add(other.#histogram as hdr.Int32Histogram);
  }

  toJSON(): DistributionJson {
    return {
      count: this.count,
      sum: this.sum,
      mean: this.#mean,
      squares: this.#squares,
      min: this.min,
      max: this.max,
      histogram: hdr.encodeIntoCompressedBase64(this.#histogram),
    };
  }

  static fromJSON(json: DistributionJson, scale: number): Distribution {
    const distribution = new Distribution(scale);
    distribution.count = json.count;
    distribution.sum = json.sum;
    distribution.#mean = json.mean;
    distribution.#squares = json.squares;
    distribution.min = json.min;
    distribution.max = json.max;
    distribution.#histogram = hdr.decodeFromCompressedBase64(json.histogram);
    return distribution;
  }

  /** Counts by value for a chart: `[value, count]` of each bucket that is not empty, in at most `most` buckets. */
  buckets(most: number): [number, number][] {
    if (this.count === 0) return [];
    // Equal steps on a logarithmic axis: latencies spread over orders of magnitude.
    const low = Math.max(this.min, 1 / this.#scale);
    const high = Math.max(this.max, low * 1.0001);
    const step = (high / low) ** (1 / most);
    const buckets: [number, number][] = [];
    let below = 0;
    for (let i = 1; i <= most; i++) {
      const edge = i === most ? high : low * step ** i;
      const upTo = this.countUpTo(edge);
      if (upTo > below) buckets.push([low * step ** (i - 0.5), upTo - below]);
      below = upTo;
    }
    return buckets;
  }

  /** Number of values at most `value`, within the histogram's precision. */
  countUpTo(value: number): number {
    if (value >= this.max) return this.count;
    if (value < this.min) return 0;
    // The library tells the value at a percentile; the percentile of a value is found by halving.
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.#histogram.getValueAtPercentile((100 * middle) / this.count) / this.#scale <= value) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
