/**
 * Estimates the memory that content needs, before it is decoded. Tiny values cost most: `[]` is three characters with its
 * comma and a list of 40 bytes; a row of CSV with one digit is two characters and needs about 240 bytes.
 */
import { functionMb, weightAtOnce } from '../core/process/memory.ts';

/**
 * Bytes of memory for each character of text: the line, its decoded text, its copy in the trace, that copy as JSON, and
 * the request to MLflow. Measured: 4 to 7.
 */
export const BYTES_A_CHARACTER = 8;
/**
 * Bytes of memory for a value in JSON or a cell in CSV, at worst. Measured: 70 (lists) to 245 (CSV with one cell per
 * row).
 */
const BYTES_A_VALUE = 250;

export const tooHeavyNote = (): string =>
  `it needs more memory than a function of ${functionMb()} MB has for it; a larger LAMBDA_MEMORY_MB helps`;

/** The content needs more memory than is allowed. */
export class TooHeavy extends Error {
  override readonly name = 'TooHeavy';
}

/** Adds up the estimated memory of a line. */
export class Scale {
  weight = 0;
  readonly #most: number;

  constructor(most = weightAtOnce()) {
    this.#most = most;
  }

  /** Number of characters that still fit. */
  get charactersLeft(): number {
    return Math.max(0, (this.#most - this.weight) / BYTES_A_CHARACTER);
  }

  /** @throws TooHeavy */
  characters(count: number): void {
    this.#add(count * BYTES_A_CHARACTER);
  }

  /** @throws TooHeavy */
  values(count: number): void {
    this.#add(count * BYTES_A_VALUE);
  }

  #add(bytes: number): void {
    this.weight += bytes;
    if (this.weight > this.#most) throw new TooHeavy(tooHeavyNote());
  }
}

/** Counts `,` `:` `[` `{` and line endings: an upper bound of a text's values or cells in any format. */
export function countValues(text: string): number {
  let values = 1;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x2c || code === 0x3a || code === 0x5b || code === 0x7b || code === 0x0a || code === 0x0d) values += 1;
  }
  return values;
}
