/** Bounded concurrency: loops over items, a semaphore for tasks that arrive one by one, and rounds of the event loop. */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

/**
 * Works through the items, at most `limit` at a time. After a failure it starts no further item, waits for the items in
 * flight, and throws the first failure.
 *
 * @example
 *     await forEachConcurrently(16, keys, (key) => storage.delete(bucket, key));
 */
export async function forEachConcurrently<T>(
  limit: number,
  items: Iterable<T> | AsyncIterable<T>,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const shared = { [Symbol.asyncIterator]: () => iterator as AsyncIterator<T> };
  let failure: { error: unknown } | undefined;
  const fail = (error: unknown): void => {
    failure ??= { error };
  };
  const worker = async () => {
    for await (const item of shared) {
      // Noted at once: to leave the loop takes until the items that the others wait for have come.
      if (!failure) await work(item).catch(fail);
      if (failure) return;
    }
  };
  await Promise.all(Array.from({ length: limit }, () => worker().catch(fail)));
  if (failure) throw failure.error;
}

/**
 * Returns a function of one item, which does the work on all items that come within a time together.
 *
 * @param work returns a result for each item, in their order
 *
 * @example
 *     const read = together(20, (keys) => readAll(keys));
 *     const [a, b] = await Promise.all([read('a'), read('b')]);   // one `readAll`
 */
export function together<T, R>(ms: number, work: (items: readonly T[]) => Promise<readonly R[]>) {
  let items: T[] = [];
  let results: Promise<readonly R[]> | undefined;
  return async (item: T): Promise<R> => {
    const at = items.push(item) - 1;
    results ??= sleep(ms).then(() => {
      const all = items;
      items = [];
      results = undefined;
      return work(all);
    });
    return (await results)[at] as R;
  };
}

/**
 * Yields the results of the work in the order of the items, with up to `limit` items in progress.
 *
 * @throws the errors of the work, in the order of the items, after all started work has ended
 *
 * @example
 *     for await (const text of inOrder(16, keys, read)) write(text);   // 16 reads at once, texts in the order of the keys
 */
export async function* inOrder<T, R>(
  limit: number,
  items: AsyncIterable<T> | Iterable<T>,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const started: Promise<R>[] = [];
  try {
    for await (const item of items) {
      const result = work(item);
      // Awaited in order; until then a failure must not count as unhandled.
      result.catch(() => undefined);
      started.push(result);
      if (started.length >= limit) yield await (started.shift() as Promise<R>);
    }
    while (started.length > 0) yield await (started.shift() as Promise<R>);
  } finally {
    await Promise.allSettled(started);
  }
}

/** Runs at most `count` tasks at a time. The others wait in the order in which they came. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      // The slot goes directly to the next task, so that a task that arrives in between cannot take it.
      if (next) next();
      else this.#free += 1;
    }
  }
}

let lastYield: Promise<void> = Promise.resolve();

/**
 * Waits for its own turn of the event loop. Callers are released one per turn: if many tasks continued in the same
 * turn, the loop could not read replies, and a server would get no further requests, until all of them have computed.
 */
export function yieldToEventLoop(): Promise<void> {
  lastYield = lastYield.then(() => setImmediate());
  return lastYield;
}

/** Number of checks for an answer within a time limit. A process that was suspended reads replies that have arrived before it times out. */
const LOOKS = 20;

/** Rejects if there is no answer within a limit. The question is not stopped. @throws Error `TimeoutError` */
export const inTime = <T>(question: Promise<T>, ms: number): Promise<T> =>
  new Promise((resolve, reject) => {
    let left = LOOKS;
    const look = setInterval(() => {
      left -= 1;
      if (left > 0) return;
      clearInterval(look);
      reject(Object.assign(new Error(`no answer within ${ms / 1000} s`), { name: 'TimeoutError' }));
    }, ms / LOOKS).unref();
    question.then(resolve, reject).finally(() => clearInterval(look));
  });
