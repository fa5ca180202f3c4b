/** The time at which each request reached the stand-in endpoint. */

export interface Arrival {
  /** The number after `#` in the request's text; -1 if it has none. */
  number: number;
  /** Epoch milliseconds with fractions, when the request's headers were read. */
  atMs: number;
}

/** Two flat arrays rather than one of objects, so that logging costs next to nothing at thousands of requests per second. */
export class ArrivalLog {
  #times: number[] = [];
  #numbers: number[] = [];

  /** Logs an arrival. @returns its index */
  add(): number {
    this.#times.push(performance.timeOrigin + performance.now());
    return this.#numbers.push(-1) - 1;
  }

  /** Sets the number of an arrival once its body has been read: `[#000123] …` is 123. */
  name(index: number, body: Buffer): void {
    const hash = body.indexOf(0x23);
    if (hash < 0 || index >= this.count) return;
    const digits = /^\d+/.exec(body.toString('latin1', hash + 1, hash + 10))?.[0];
    if (digits) this.#numbers[index] = Number(digits);
  }

  get count(): number {
    return this.#times.length;
  }

  /** All arrivals so far, in the order in which they came in. */
  list(): Arrival[] {
    return this.#times.map((atMs, index) => ({ number: this.#numbers[index] ?? -1, atMs }));
  }

  clear(): void {
    this.#times = [];
    this.#numbers = [];
  }
}
