/**
 * An HDR histogram: counts whole numbers in buckets whose width grows with the value, so that every value is accurate to
 * three digits in a few kilobytes. It has HdrHistogram's bucket layout. It is our own implementation because a run has
 * dozens of them and records into each for every request.
 */

/** Three significant digits: 2 × 1,000 rounded up to a power of two. */
const SUB_BUCKETS = 2048;
const HALF = SUB_BUCKETS / 2;
/** log2(HALF). */
const HALF_MAGNITUDE = 10;
/** The largest value: a double represents whole numbers up to 2^53. */
const MAX_VALUE = Number.MAX_SAFE_INTEGER;

/** Returns floor(log2(value)) of a whole number of at least 1. */
function log2(value: number): number {
  if (value < 2 ** 31) return 31 - Math.clz32(value);
  return 31 + log2(Math.floor(value / 2 ** 31));
}

/** Returns the bucket of a value. */
export function indexOf(value: number): number {
  if (value < SUB_BUCKETS) return value;
  const shift = log2(value) - HALF_MAGNITUDE;
  return shift * HALF + Math.floor(value / 2 ** shift);
}

/** Returns the lowest value of a bucket and the number of distinct values in it. */
function bucketOf(index: number): { low: number; width: number } {
  if (index < SUB_BUCKETS) return { low: index, width: 1 };
  const shift = Math.floor(index / HALF) - 1;
  const width = 2 ** shift;
  return { low: (index - shift * HALF) * width, width };
}

export class HdrHistogram {
  /** Counts by bucket, of the non-empty ones. */
  readonly #counts = new Map<number, number>();

  /** @param value a whole number of at least 0; values above 2^53 − 1 count as 2^53 − 1 */
  record(value: number): void {
    this.#addAt(indexOf(Math.min(value, MAX_VALUE)), 1);
  }

  /**
   * Returns the value at a position among the sorted values, from 0, and interpolates between two of them. A value is the
   * middle of its bucket, which is off by at most 0.05%.
   */
  at(place: number): number {
    const before = Math.floor(place);
    let seen = 0;
    let start: number | undefined;
    for (const [index, count] of this.entries()) {
      seen += count;
      if (seen <= before) continue;
      const { low, width } = bucketOf(index);
      const value = low + Math.floor(width / 2);
      if (place === before || seen > before + 1) return value + (before + 1 - place) * ((start ?? value) - value);
      start = value;
    }
    return start ?? 0;
  }

  /** Returns the number of values up to `value`, within the precision. */
  countUpTo(value: number): number {
    const last = indexOf(Math.min(Math.max(0, Math.floor(value)), MAX_VALUE));
    let seen = 0;
    for (const [index, count] of this.entries()) {
      if (index > last) break;
      seen += count;
    }
    return seen;
  }

  merge(other: HdrHistogram): void {
    for (const [index, count] of other.entries()) this.#addAt(index, count);
  }

  /** The non-empty buckets in ascending order, with their counts. */
  entries(): [number, number][] {
    return [...this.#counts].sort(([a], [b]) => a - b);
  }

  /** @param entries index, count, index, count, … */
  static ofEntries(entries: readonly number[]): HdrHistogram {
    const histogram = new HdrHistogram();
    for (let i = 0; i + 1 < entries.length; i += 2) histogram.#addAt(entries[i] ?? 0, entries[i + 1] ?? 0);
    return histogram;
  }

  #addAt(index: number, times: number): void {
    this.#counts.set(index, (this.#counts.get(index) ?? 0) + times);
  }
}
