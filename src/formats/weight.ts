/**
 * What content becomes in memory, reckoned before it is taken apart. Tiny values cost most: `[]` is three characters with
 * its comma and a list of 40 bytes, a row of CSV with one digit is two and ends as some 240.
 */
import { functionMb, weightAtOnce } from '../shared/memory.ts';

/** Of a text: the line, its decoded text, its copy in the trace, that as JSON, and the request to MLflow; measured 4 to 7. */
export const BYTES_A_CHARACTER = 8;
/** Of a value in JSON or a cell in CSV, at worst; measured 70 (lists) to 245 (CSV of one cell a row). */
const BYTES_A_VALUE = 250;

export const tooHeavyNote = (): string =>
  `more than can be taken apart in a function of ${functionMb()} MB; LAMBDA_MEMORY_MB gives it more`;

/** Content that becomes more than it may. */
export class TooHeavy extends Error {
  override readonly name = 'TooHeavy';
}

/** Adds up what a line becomes. */
export class Scale {
  weight = 0;
  readonly #most: number;

  constructor(most = weightAtOnce()) {
    this.#most = most;
  }

  /** Characters that more may come to. */
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

/** `,` `:` `[` `{` and the ends of lines: as many as a text can have values or cells, whichever format it is in. */
export function countValues(text: string): number {
  let values = 1;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x2c || code === 0x3a || code === 0x5b || code === 0x7b || code === 0x0a || code === 0x0d) values += 1;
  }
  return values;
}
