/**
 * The order to stop a replay: an object in the work bucket, whoever puts it there and whatever it says. Lambdas that send
 * cannot be reached from outside, and Step Functions ends none of them with their execution.
 */

import { replayKeys } from '../../../contract/replay.ts';
import type { Storage } from '../../../shared/storage.ts';
import { logger } from '../../../shared/telemetry.ts';

/**
 * Between two looks, so that sending ends within so much of the order. A look is a HEAD at $0.4 a million: the 260 of a
 * shard with the longest window cost $0.0001, those of 1,000 such shards 10 cents.
 */
const LOOK_EVERY_MS = 3_000;

export interface StopMark {
  /** Epoch ms, by S3's clock. */
  atMs: number;
}

export async function stopMark(storage: Storage, bucket: string, run: string): Promise<StopMark | undefined> {
  const facts = await storage.head(bucket, replayKeys.stop(run));
  return facts && { atMs: facts.lastModifiedMs };
}

/** What was there first stays: its time is that of the order. */
export async function putStopMark(storage: Storage, bucket: string, run: string, because: string): Promise<void> {
  await storage.putJsonIf(bucket, replayKeys.stop(run), { run, because });
}

/** Looks for the order to stop, and hands it on as a signal. */
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
  async look(): Promise<boolean> {
    if (await stopMark(this.#storage, this.#bucket, this.#run)) this.#stopped.abort();
    return this.signal.aborted;
  }

  /** Looks again and again, until the order is there or `close` is called. */
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
        await this.look();
      } catch (error) {
        // S3 may be away for a while; that is no reason to end a shard, and the next look is soon.
        logger.warn('stop not looked for', { run: this.#run, error: error as Error });
      }
      this.#next();
    }, LOOK_EVERY_MS);
  }
}
