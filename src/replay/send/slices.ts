/** Runs work that must not delay a send in short slices between the sends. */

/** The longest time that a slice occupies the event loop. */
const SLICE_MS = 1;

/** Handles items in order, one slice at a time. `beforeSlice` sends due requests. */
export function slicedQueue<T>(handle: (item: T) => void, beforeSlice: () => void) {
  const items: T[] = [];
  let isPlanned = false;
  const plan = (): void => {
    if (!isPlanned) setImmediate(slice);
    isPlanned = true;
  };
  let whenEmpty = (): void => {};
  const slice = (): void => {
    isPlanned = false;
    beforeSlice();
    const until = performance.now() + SLICE_MS;
    while (items.length > 0) {
      handle(items.shift() as T);
      if (performance.now() >= until) break;
    }
    if (items.length > 0) plan();
    else whenEmpty();
  };
  return {
    length: (): number => items.length,
    push: (item: T): void => {
      items.push(item);
      plan();
    },
    /** Resolves when the queue is empty. Call it once. */
    drained: (): Promise<void> =>
      new Promise((resolve) => {
        whenEmpty = resolve;
        if (items.length === 0) resolve();
      }),
  };
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
