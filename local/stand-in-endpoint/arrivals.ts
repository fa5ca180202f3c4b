/** When each request reached the server: two numbers a request, so that noting them costs nothing at thousands a second. */

export interface Arrival {
  /** The number after `#` in the request's text, -1 without one. */
  number: number;
  /** Epoch milliseconds with fractions, when the request's headers were read. */
  atMs: number;
}

const FIRST_CAPACITY = 4096;

export class ArrivalLog {
  #times = new Float64Array(FIRST_CAPACITY);
  #numbers = new Int32Array(FIRST_CAPACITY);
  #count = 0;

  /** Notes an arrival, returns its ordinal. */
  add(): number {
    if (this.#count === this.#times.length) this.#grow();
    this.#times[this.#count] = performance.timeOrigin + performance.now();
    this.#numbers[this.#count] = -1;
    return this.#count++;
  }

  /** Sets the number of an arrival once its body is there: `[#000123] …` is 123. */
  name(ordinal: number, body: Buffer): void {
    const hash = body.indexOf(0x23);
    if (hash < 0 || ordinal >= this.#count) return;
    let value = 0;
    let digits = 0;
    for (let at = hash + 1; at < body.length; at++) {
      const digit = (body[at] ?? 0) - 0x30;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      digits++;
    }
    if (digits > 0) this.#numbers[ordinal] = value;
  }

  get count(): number {
    return this.#count;
  }

  /** All arrivals so far, in order. */
  list(): Arrival[] {
    return Array.from({ length: this.#count }, (_, i) => ({
      number: this.#numbers[i] ?? -1,
      atMs: this.#times[i] ?? 0,
    }));
  }

  clear(): void {
    this.#count = 0;
  }

  #grow(): void {
    const times = new Float64Array(this.#times.length * 2);
    times.set(this.#times);
    this.#times = times;
    const numbers = new Int32Array(this.#numbers.length * 2);
    numbers.set(this.#numbers);
    this.#numbers = numbers;
  }
}
