/** Limits the time of synchronous work: content that would take too long is interrupted, and the function continues. */
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
 * Runs the work and interrupts it after the given time. V8 interrupts loops and regular expressions immediately, also in
 * functions outside the watched script. A single `JSON.parse` or sort is interrupted only after it returns. The overhead
 * of a call is about 0.1 ms.
 *
 * @throws what the work throws; an error named `OutOfTime` if it was interrupted
 */
export function withinTime<T>(ms: number, work: () => T): T {
  guard ??= { script: new vm.Script('work()'), context: vm.createContext({}) };
  const { script, context } = guard;
  let result: { value: T } | undefined;
  context.work = () => {
    // Removed immediately, so that no reference keeps the work's data in memory.
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

/** Runs one part of a work whose parts share a time limit. `what` names the part in the error, in fixed words. */
export type Within = <T>(what: string, work: () => T) => T;

/** Returns a runner for parts that share a time limit. After the limit, no further part starts. */
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

/** Every capture has 5 s, plus 1 s per MiB of its line. A quarter of a processor needs 0.3 s per MiB. */
const BASE_MS = 5_000;
const MS_PER_MIB = 1_000;

/** Returns the time limit for the synchronous work on one capture. Ordinary captures need a thousandth of it. */
export const captureTimeMs = (bytes: number): number => BASE_MS + (bytes / 1024 ** 2) * MS_PER_MIB;

/** Returns the time limit of a capture by the size of its payloads. */
export const timeOf = (capture: { request?: { bytes: number }; response?: { bytes: number } }): number =>
  captureTimeMs((capture.request?.bytes ?? 0) + (capture.response?.bytes ?? 0));
