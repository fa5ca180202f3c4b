/** Keys of a replay in the work bucket that only the replay's own functions use. See also `replayKeys`. */
import { replayKeys } from '../../../core/contract/work-keys.ts';

/** Lines that planning skipped, with their places. */
export const plannedSkippedKey = (run: string): string => `${replayKeys.schedulePrefix(run)}skipped.jsonl`;

/** The warm-up: requests that shard 0 sends before the clock starts. */
export const warmupKey = (run: string): string => `${replayKeys.schedulePrefix(run)}warmup.jsonl`;

/** Files of a shard that are not in the result set. */
export const SHARD_FILES = {
  /** Written last. A shard without it is lost. */
  result: 'result.json',
  inputs: 'inputs.jsonl',
  /** Why the shard ended without a result. */
  failure: 'failure.json',
} as const;
