/**
 * The order to stop a replay: an object in the work bucket. Its content does not matter. Functions that send requests
 * cannot be called from outside, and Step Functions does not end them with their execution.
 */

import type { Storage } from '../../../core/aws/storage.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { logger } from '../../../core/process/logging.ts';

/**
 * Time between two checks, and so the maximum time that sending continues after the order. A check is a HEAD request at
 * $0.4 a million: the 260 checks of the longest shard cost $0.0001, and 1,000 such shards cost 10 cents.
 */
const CHECK_EVERY_MS = 3_000;

/** Reads the time of the stop order, epoch ms by S3's clock; `undefined` without one. */
export const stopMark = async (storage: Storage, bucket: string, run: string): Promise<number | undefined> =>
  (await storage.head(bucket, replayKeys.stop(run)))?.lastModifiedMs;

/** Writes the order. An earlier one stays, because its time is when sending had to stop. */
export async function putStopMark(storage: Storage, bucket: string, run: string, because: string): Promise<void> {
  await storage.putJsonIf(bucket, replayKeys.stop(run), { run, because });
}

export type StopWatch = ReturnType<typeof stopWatch>;

export function stopWatch(storage: Storage, bucket: string, run: string) {
  const stopped = new AbortController();
  const { signal } = stopped;
  let timer: NodeJS.Timeout | undefined;
  /** @returns whether the replay has been stopped */
  const check = async (): Promise<boolean> => {
    if ((await stopMark(storage, bucket, run)) !== undefined) stopped.abort();
    return signal.aborted;
  };
  // An outage of S3 does not end a shard, because the next check follows soon.
  const checkAgain = () =>
    check().catch((error: Error) => logger.warn('could not check for the stop order', { run, error }));
  return {
    /** Aborted once the stop order exists. */
    signal,
    check,
    /** Checks repeatedly until `close` is called. */
    watch: (): void => {
      timer = setInterval(checkAgain, CHECK_EVERY_MS);
    },
    close: (): void => clearInterval(timer),
  };
}
