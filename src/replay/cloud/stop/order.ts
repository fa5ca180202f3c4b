/**
 * The order to stop a replay: an object in the work bucket, whatever its content. Functions that send cannot be called from
 * outside, and Step Functions does not end them with their execution.
 */

import type { Storage } from '../../../core/aws/storage.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { logger } from '../../../core/process/logging.ts';

/**
 * Time between two checks, and so the longest that sending continues after the order. A check is a HEAD at $0.4 a million:
 * the 260 of a shard with the longest window cost $0.0001, those of 1,000 such shards 10 cents.
 */
const CHECK_EVERY_MS = 3_000;

export interface StopMark {
  /** Epoch ms, by S3's clock. */
  atMs: number;
}

/** Reads the time of the stop order; `undefined` without one. */
export async function stopMark(storage: Storage, bucket: string, run: string): Promise<StopMark | undefined> {
  const facts = await storage.head(bucket, replayKeys.stop(run));
  return facts && { atMs: facts.lastModifiedMs };
}

/** Writes the order. An earlier one stays, because its time is when sending had to stop. */
export async function putStopMark(storage: Storage, bucket: string, run: string, because: string): Promise<void> {
  await storage.putJsonIf(bucket, replayKeys.stop(run), { run, because });
}

/** Checks for the stop order, and aborts a signal once it exists. */
export class StopWatch {
  readonly #storage: Storage;
  readonly #bucket: string;
  readonly #run: string;
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #watching = false;

  constructor(storage: Storage, bucket: string, run: string) {
    this.#storage = storage;
    this.#bucket = bucket;
    this.#run = run;
  }

  get signal(): AbortSignal {
    return this.#stopped.signal;
  }

  /** @returns whether the replay has been stopped */
  async check(): Promise<boolean> {
    if (await stopMark(this.#storage, this.#bucket, this.#run)) this.#stopped.abort();
    return this.signal.aborted;
  }

  /** Checks repeatedly until the stop order exists or `close` is called. */
  watch(): void {
    this.#watching = true;
    this.#next();
  }

  close(): void {
    this.#watching = false;
    clearTimeout(this.#timer);
  }

  #next(): void {
    if (!this.#watching || this.signal.aborted) return;
    this.#timer = setTimeout(async () => {
      try {
        await this.check();
      } catch (error) {
        // An outage of S3 is no reason to end a shard: the next check follows soon.
        logger.warn('could not check for the stop order', { run: this.#run, error: error as Error });
      }
      this.#next();
    }, CHECK_EVERY_MS);
  }
}
