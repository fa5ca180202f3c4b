/** Work that must not delay a send is done in slices between them. */

/** Longest that the event loop is held at a time. */
const SLICE_MS = 1;

/** Handles items in order, a slice at a time; before each slice whatever is due goes first. */
export class SlicedQueue<T> {
  readonly #handle: (item: T) => void;
  readonly #first: () => void;
  #items: T[] = [];
  #head = 0;
  #scheduled = false;
  #idle: (() => void)[] = [];

  /** @param first called before each slice */
  constructor(handle: (item: T) => void, first: () => void) {
    this.#handle = handle;
    this.#first = first;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
    this.#schedule();
  }

  /** Resolves when nothing is left. */
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
    this.#first();
    const until = performance.now() + SLICE_MS;
    while (this.#head < this.#items.length) {
      const item = this.#items[this.#head] as T;
      this.#items[this.#head++] = undefined as T;
      this.#handle(item);
      if (performance.now() >= until) break;
    }
    if (this.length > 0) {
      this.#schedule();
      return;
    }
    this.#items = [];
    this.#head = 0;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** For loops that wait for I/O anyway: gives way when the slice is over. */
export class Pace {
  #until = performance.now() + SLICE_MS;

  /** Whether it is time for `rest`. */
  get due(): boolean {
    return performance.now() >= this.#until;
  }

  async rest(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    this.#until = performance.now() + SLICE_MS;
  }
}
