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

/** Seconds that any capture has, and those that each MiB of its line adds: a quarter of a processor takes 0.3 s for one. */
const BASE_MS = 5_000;
const MS_A_MIB = 1_000;

/** Time for the synchronous work on one capture. Ordinary ones take a thousandth of it. */
export const captureTimeMs = (bytes: number): number => BASE_MS + (bytes / 1024 ** 2) * MS_A_MIB;
