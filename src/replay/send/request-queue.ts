import type { PreparedRequest } from '../request/prepared.ts';

/** Prepared requests in the order of their time; taking one off the front costs nothing. */
export class RequestQueue {
  #items: PreparedRequest[] = [];
  #head = 0;

  /** Bytes of the requests that wait. */
  bytes = 0;

  /** Those that wait, the next one first. */
  *waiting(): Generator<PreparedRequest> {
    for (let i = this.#head; i < this.#items.length; i++) yield this.#items[i] as PreparedRequest;
  }

  /** Puts another form of a request that may still wait in its place. */
  replaceWire(request: PreparedRequest, { wire, bodyAt }: { wire: Buffer; bodyAt: number }): void {
    if (wire.length !== request.wire.length && this.#items.includes(request, this.#head))
      this.bytes += wire.length - request.wire.length;
    request.wire = wire;
    request.bodyAt = bodyAt;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(request: PreparedRequest): void {
    this.#items.push(request);
    this.bytes += request.wire.length;
  }

  peek(): PreparedRequest | undefined {
    return this.#items[this.#head];
  }

  shift(): PreparedRequest | undefined {
    const request = this.#items[this.#head];
    if (!request) return undefined;
    // The place is emptied so that what was sent can be freed.
    this.#items[this.#head++] = undefined as unknown as PreparedRequest;
    this.bytes -= request.wire.length;
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return request;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
    this.bytes = 0;
  }

  /** The last request's time. */
  get lastDueMs(): number | undefined {
    return this.#items.at(-1)?.dueMs;
  }

  /** Requests that are due until then, those without a time among them. */
  dueBefore(untilMs: number): number {
    let at = this.#head;
    while (at < this.#items.length && !((this.#items[at]?.dueMs ?? 0) > untilMs)) at++;
    return at - this.#head;
  }

  /**
   * Most requests that are due within any `windowMs`, of those due before `untilMs`: how many connections will be busy at
   * once when a reply takes that long.
   */
  peak(windowMs: number, untilMs: number): number {
    let most = 0;
    let from = this.#head;
    for (let to = this.#head; to < this.#items.length; to++) {
      const due = this.#items[to]?.dueMs ?? 0;
      if (due > untilMs) break;
      while (due - (this.#items[from]?.dueMs ?? 0) > windowMs) from++;
      most = Math.max(most, to - from + 1);
    }
    return most;
  }
}
