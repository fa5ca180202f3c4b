/**
 * An HDR histogram: counts of whole numbers in buckets that widen with the value, so that any value is kept to three
 * digits in a few kilobytes. It has the bucket layout and the text form of HdrHistogram (V2, compressed), so its tools
 * read what is written here; it is our own because a run holds dozens of them and records in each for every request.
 */
import { deflateSync, inflateSync } from 'node:zlib';

/** Three significant digits: 2 × 1,000 rounded up to a power of two. */
const SIGNIFICANT_DIGITS = 3;
const SUB_BUCKETS = 2048;
const HALF = SUB_BUCKETS / 2;
/** log2(HALF). */
const HALF_MAGNITUDE = 10;
/** Largest value: a double holds whole numbers up to 2^53. */
const MAX_VALUE = Number.MAX_SAFE_INTEGER;

const V2_COOKIE = 0x1c849303 | 0x10;
const V2_COMPRESSED_COOKIE = 0x1c849304 | 0x10;
const HEADER_BYTES = 40;

/** floor(log2(value)) of a whole number of at least 1. */
function log2(value: number): number {
  if (value < 2 ** 31) return 31 - Math.clz32(value);
  return 31 + log2(Math.floor(value / 2 ** 31));
}

/** Bucket of a value. */
export function indexOf(value: number): number {
  if (value < SUB_BUCKETS) return value;
  const shift = log2(value) - HALF_MAGNITUDE;
  return shift * HALF + Math.floor(value / 2 ** shift);
}

/** Lowest value of a bucket, and the number of values in it. */
function bucketOf(index: number): { low: number; width: number } {
  if (index < SUB_BUCKETS) return { low: index, width: 1 };
  const shift = Math.floor(index / HALF) - 1;
  const width = 2 ** shift;
  return { low: (index - shift * HALF) * width, width };
}

export class HdrHistogram {
  /** Counts by bucket. A sparse one keeps only those that are not zero. */
  #dense: Float64Array | undefined;
  readonly #sparse: Map<number, number> | undefined;
  count = 0;

  constructor(sparse = false) {
    if (sparse) this.#sparse = new Map();
    else this.#dense = new Float64Array(HALF);
  }

  /** @param value a whole number of at least 0; larger ones than 2^53 − 1 count as that */
  record(value: number, times = 1): void {
    this.#addAt(indexOf(Math.min(value, MAX_VALUE)), times);
  }

  /**
   * Value at a place among the sorted values, from 0; between two of them in proportion. A value is the middle of its
   * bucket, half a thousandth off at most.
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

  /** Number of values up to `value`, within the precision. */
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

  /** Buckets that are not empty, in order, with their counts. */
  *entries(): Generator<[number, number]> {
    if (this.#sparse) {
      yield* [...this.#sparse].sort(([a], [b]) => a - b);
      return;
    }
    const counts = this.#dense ?? new Float64Array();
    for (let index = 0; index < counts.length; index++) {
      const count = counts[index] ?? 0;
      if (count > 0) yield [index, count];
    }
  }

  /** @param entries index, count, index, count, … */
  static ofEntries(entries: readonly number[], sparse = false): HdrHistogram {
    const histogram = new HdrHistogram(sparse);
    for (let i = 0; i + 1 < entries.length; i += 2) histogram.#addAt(entries[i] ?? 0, entries[i + 1] ?? 0);
    return histogram;
  }

  #addAt(index: number, times: number): void {
    this.count += times;
    if (this.#sparse) {
      this.#sparse.set(index, (this.#sparse.get(index) ?? 0) + times);
      return;
    }
    let counts = this.#dense as Float64Array;
    if (index >= counts.length) {
      const grown = new Float64Array(Math.max(index + 1, counts.length * 2));
      grown.set(counts);
      this.#dense = grown;
      counts = grown;
    }
    counts[index] = (counts[index] ?? 0) + times;
  }

  /** HdrHistogram's V2 compressed form, base64. */
  encode(): string {
    const payload: number[] = [];
    let next = 0;
    for (const [index, count] of this.entries()) {
      // A run of empty buckets is one negative number.
      if (index > next) zigZag(-(index - next), payload);
      zigZag(count, payload);
      next = index + 1;
    }
    const highest = next === 0 ? 2 : bucketOf(next - 1).low + bucketOf(next - 1).width - 1;
    const bytes = Buffer.alloc(HEADER_BYTES + payload.length);
    bytes.writeInt32BE(V2_COOKIE, 0);
    bytes.writeInt32BE(payload.length, 4);
    bytes.writeInt32BE(0, 8);
    bytes.writeInt32BE(SIGNIFICANT_DIGITS, 12);
    bytes.writeBigInt64BE(1n, 16);
    bytes.writeBigInt64BE(BigInt(Math.max(2, highest)), 24);
    bytes.writeDoubleBE(1, 32);
    bytes.set(payload, HEADER_BYTES);
    const deflated = deflateSync(bytes);
    const head = Buffer.alloc(8);
    head.writeInt32BE(V2_COMPRESSED_COOKIE, 0);
    head.writeInt32BE(deflated.length, 4);
    return Buffer.concat([head, deflated]).toString('base64');
  }

  /** @throws when the text is not a compressed V2 histogram of three digits */
  static decode(text: string): HdrHistogram {
    const compressed = Buffer.from(text, 'base64');
    const length = compressed.readInt32BE(4);
    if (compressed.readInt32BE(0) !== V2_COMPRESSED_COOKIE) throw new Error('not a compressed V2 HDR histogram');
    const bytes = inflateSync(compressed.subarray(8, 8 + length));
    if (bytes.readInt32BE(0) !== V2_COOKIE || bytes.readInt32BE(12) !== SIGNIFICANT_DIGITS) {
      throw new Error(`not a V2 HDR histogram of ${SIGNIFICANT_DIGITS} digits`);
    }
    const histogram = new HdrHistogram();
    let index = 0;
    let at = HEADER_BYTES;
    const end = HEADER_BYTES + bytes.readInt32BE(4);
    while (at < end) {
      const [value, next] = unZigZag(bytes, at);
      at = next;
      if (value < 0) index += -value;
      else histogram.#addAt(index++, value);
    }
    return histogram;
  }
}

/** Sign in the lowest bit, seven bits a byte. */
function zigZag(value: number, into: number[]): void {
  let rest = value < 0 ? -2 * value - 1 : 2 * value;
  // The ninth byte, if it comes to that, holds all of its eight bits.
  for (let i = 0; i < 8 && rest >= 128; i++) {
    into.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  into.push(rest);
}

function unZigZag(bytes: Buffer, at: number): [number, number] {
  let value = 0;
  let weight = 1;
  let i = at;
  for (; i < at + 8 && (bytes[i] ?? 0) >= 128; i++) {
    value += ((bytes[i] ?? 0) - 128) * weight;
    weight *= 128;
  }
  value += (bytes[i] ?? 0) * weight;
  return [value % 2 === 1 ? -(value + 1) / 2 : value / 2, i + 1];
}
