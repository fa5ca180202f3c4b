/** Limits the time of synchronous work: content that would take too long is interrupted, and the function continues. */
import vm from 'node:vm';

class OutOfTime extends Error {
  override readonly name = 'OutOfTime';
}
export const isOutOfTime = (error: unknown): error is Error => error instanceof OutOfTime;

let guard: { script: vm.Script; context: vm.Context & { work?: () => void } } | undefined;

/**
 * Runs the work and interrupts it after the given time. V8 interrupts loops and regular expressions immediately, also
 * in functions outside the watched script. A single `JSON.parse` or sort is interrupted only after it returns. A call
 * starts a thread: 0.16 ms of processor time, and more until a busy machine has run it.
 *
 * @param ms `Infinity`: no time limit
 * @throws the errors of the work; an error named `OutOfTime` if it was interrupted
 *
 * @example
 *     const trace = withinTime(2_000, () => buildTrace(capture, raw, options));
 */
export function withinTime<T>(ms: number, work: () => T): T {
  if (ms === Number.POSITIVE_INFINITY) return work();
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

/** Runs one part of some work whose parts share a time limit. `what` names the part in the error, in fixed words. */
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

/**
 * Decoded content below this size has no time limit. All work on it takes linear time, which a test enforces
 * (test/unit/expressions.test.ts). Even a quadratic fault would end within the limit.
 */
export const MIN_TIMED_BYTES = 64 * 1024;

/** Returns the time limit for work on decoded content of this size; `Infinity` if it is too small to take long. */
export const timeForContent = (bytes: number): number =>
  bytes < MIN_TIMED_BYTES ? Number.POSITIVE_INFINITY : captureTimeMs(bytes);

/** The size as captured, and the text, which is longer if it was compressed. */
type Sized = { bytes: number; text?: string | undefined };
const sizeOf = (payload: Sized | undefined): number => Math.max(payload?.bytes ?? 0, payload?.text?.length ?? 0);

/**
 * Returns the time limit of a decoded capture by the size of its payloads; `Infinity` if it is too small to take long.
 *
 * @param lineBytes size of its line, for work that reads more of the line than the payloads
 */
export const timeOf = (
  { request, response }: { request?: Sized | undefined; response?: Sized | undefined },
  lineBytes = 0,
): number => timeForContent(Math.max(lineBytes, sizeOf(request) + sizeOf(response)));
