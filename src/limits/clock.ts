/** The time, which simulations replace. */
import { setTimeout as wait } from 'node:timers/promises';

export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /**
   * @param ms a negative number does not wait
   * @throws the signal's reason when it is aborted first
   */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const realClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    wait(Math.max(0, ms), undefined, signal && { signal }).catch((error: unknown) => {
      throw signal?.reason ?? error;
    }),
};
