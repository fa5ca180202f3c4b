/** Objects of a replay in the work bucket beside those that `replayKeys` names. */
import { replayKeys } from '../../../contract/work-keys.ts';

/** Lines that planning left out, with their places. */
export const plannedSkippedKey = (run: string): string => `${replayKeys.schedulePrefix(run)}skipped.jsonl`;

/** Requests that shard 0 sends before the clock starts. */
export const warmupKey = (run: string): string => `${replayKeys.schedulePrefix(run)}warmup.jsonl`;

/** Files of a shard whose names are not those of the result set. */
export const SHARD_FILES = {
  /** Written last: a shard without it is lost. */
  result: 'result.json',
  inputs: 'inputs.jsonl',
  /** Why a shard ended without a result. */
  failure: 'failure.json',
} as const;

/** Files of a shard's evaluation; verdicts and refused traces are in parts, which `progress.json` names. */
export const EVALUATION_FILES = {
  progress: 'progress.json',
  /** Why the last attempt ended early. */
  failure: 'failure.json',
} as const;
