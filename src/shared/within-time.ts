/** A limit of time for synchronous work: what content keeps busy is broken off, and the function goes on. */
import vm from 'node:vm';

class OutOfTime extends Error {
  override readonly name = 'OutOfTime';
}
export const isOutOfTime = (error: unknown): error is Error => error instanceof OutOfTime;

interface Guard {
  script: vm.Script;
  context: vm.Context & { work?: () => void };
}
let guard: Guard | undefined;

/**
 * Runs the work, and breaks it off when the time is over. V8 ends loops and regular expressions at once, also those of
 * functions outside the script that it watches; a single `JSON.parse` or sort it ends only behind it. A call takes some
 * 0.1 ms.
 *
 * @throws what the work throws; an error named `OutOfTime` when it was broken off.
 */
export function withinTime<T>(ms: number, work: () => T): T {
  guard ??= { script: new vm.Script('work()'), context: vm.createContext({}) };
  const { script, context } = guard;
  let result: { value: T } | undefined;
  context.work = () => {
    // Taken away at once, so that nothing holds what the work holds.
    delete context.work;
    result = { value: work() };
  };
  try {
    script.runInContext(context, { timeout: Math.ceil(ms), displayErrors: false });
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    throw new OutOfTime(`it took longer than ${ms / 1000} s`);
  }
  return (result as { value: T }).value;
}

/** Work in parts that have a time together; `what` each is, as the error says it: words of ours. */
export type Within = <T>(what: string, work: () => T) => T;

/** When the time is over, no part begins any more. */
export function withinTogether(ms: number): Within {
  let leftMs = ms;
  return (what, work) => {
    const startedAt = performance.now();
    try {
      if (leftMs > 0) return withinTime(leftMs, work);
    } catch (error) {
      if (!isOutOfTime(error)) throw error;
    } finally {
      leftMs -= performance.now() - startedAt;
    }
    throw new OutOfTime(`${what} took the rest of ${ms / 1000} s`);
  };
}

/**
 * Does the work on each, one after the other, in a time that they have together.
 *
 * @param late what there is in place of a result where the time was over, and why
 */
export function eachWithin<T extends { name: string }, R>(
  ms: number,
  items: readonly T[],
  work: (item: T) => R,
  late: (item: T, fault: string) => R,
): R[] {
  const results: R[] = [];
  if (items.length === 0) return results;
  try {
    withinTime(ms, () => {
      for (const item of items) results.push(work(item));
    });
  } catch (error) {
    if (!isOutOfTime(error)) throw error;
    const left = items.slice(results.length);
    const fault = `${error.name}: ${left[0]?.name} took the rest of ${ms / 1000} s`;
    for (const item of left) results.push(late(item, fault));
  }
  return results;
}

/** Seconds that any capture has, and those that each MiB of its line adds: a quarter of a processor takes 0.3 s for one. */
const BASE_MS = 5_000;
const MS_A_MIB = 1_000;

/** Time for the synchronous work on one capture. Ordinary ones take a thousandth of it. */
export const captureTimeMs = (bytes: number): number => BASE_MS + (bytes / 1024 ** 2) * MS_A_MIB;

/** The same by what the capture's payloads are. */
export const timeOf = (capture: { request?: { bytes: number }; response?: { bytes: number } }): number =>
  captureTimeMs((capture.request?.bytes ?? 0) + (capture.response?.bytes ?? 0));
