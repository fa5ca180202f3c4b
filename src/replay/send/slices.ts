/** Runs work that must not delay a send in short slices between the sends. */

/** The longest time that a slice occupies the event loop. */
const SLICE_MS = 1;

/** Handles items in order, one slice at a time. Due requests are sent before each slice. */
export class SlicedQueue<T> {
  readonly #items: T[] = [];
  readonly #handle: (item: T) => void;
  readonly #beforeSlice: () => void;
  #scheduled = false;
  #idle: (() => void)[] = [];

  constructor(handle: (item: T) => void, beforeSlice: () => void) {
    this.#handle = handle;
    this.#beforeSlice = beforeSlice;
  }

  get length(): number {
    return this.#items.length;
  }

  push(item: T): void {
    this.#items.push(item);
    this.#schedule();
  }

  /** Resolves when the queue is empty. */
  drained(): Promise<void> {
    if (this.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.#slice());
  }

  #slice(): void {
    this.#scheduled = false;
    this.#beforeSlice();
    const until = performance.now() + SLICE_MS;
    while (this.length > 0) {
      this.#handle(this.#items.shift() as T);
      if (performance.now() >= until) break;
    }
    if (this.length > 0) {
      this.#schedule();
      return;
    }
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** Lets loops that wait for I/O yield when their time slice is over. */
export class TimeSlice {
  #until = performance.now() + SLICE_MS;

  /** Whether to call `rest` now. */
  get isOver(): boolean {
    return performance.now() >= this.#until;
  }

  async rest(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#until = performance.now() + SLICE_MS;
  }
}
