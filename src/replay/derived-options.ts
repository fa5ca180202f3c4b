/** Answers questions about a replay without loading the schema of its options, which takes time. */
import type { ReplayOptions } from './options.ts';

/** Enough for about 2,000 pairs: with the default model, a pair costs about one cent. */
export const DEFAULT_JUDGE_BUDGET_USD = 20;

/** Whether requests have scheduled times. Otherwise each is sent as soon as there is room under `concurrency`. */
export const isScheduled = ({ requestRate, concurrency }: ReplayOptions): boolean =>
  requestRate !== undefined || concurrency === undefined;

/** Whether requests are sent by their captured times: then every record needs one. */
export const isByCapturedTimes = ({ requestRate, concurrency }: ReplayOptions): boolean =>
  requestRate === undefined && concurrency === undefined;

/** Together with `--request-rate`, `--concurrency` is a cap, as in AIPerf. */
export const maxConcurrencyOf = (options: ReplayOptions): number =>
  Math.min(options.maxConcurrency ?? Number.POSITIVE_INFINITY, options.concurrency ?? Number.POSITIVE_INFINITY);

/**
 * Returns an upper bound of the schedule's length, in seconds.
 *
 * @param spanMs time between the first and the last captured record
 * @param records number of captured records; needed for a rate
 */
export function scheduleSeconds(options: ReplayOptions, spanMs: number, records?: number): number {
  const { requestRate, requestCount = Number.POSITIVE_INFINITY, repeat, speedup } = options;
  const end = Math.min(spanMs, options.fixedScheduleEndOffset ?? spanMs);
  const windowMs = Math.max(0, end - (options.fixedScheduleStartOffset ?? 0));
  return requestRate === undefined || records === undefined
    ? (windowMs * repeat) / speedup / 1000
    : Math.min(requestCount, records * repeat) / requestRate;
}
