/** The time, which simulations replace. */
import { setTimeout as wait } from 'node:timers/promises';

export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
  /** @throws the signal's reason when it is aborted first */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const realClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    wait(ms, undefined, signal && { signal }).catch((error: unknown) => {
      throw signal?.reason ?? error;
    }),
};
