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

/** Returns an upper bound of the schedule's length, in seconds; 0 without one. Needs the index of the captures. */
export function scheduleSeconds(
  options: ReplayOptions,
  { total, firstMs, lastMs }: { total: number; firstMs: number; lastMs: number },
): number {
  const { requestRate, requestCount = Number.POSITIVE_INFINITY, repeat, speedup } = options;
  if (requestRate !== undefined) return Math.min(requestCount, total * repeat) / requestRate;
  if (!isByCapturedTimes(options) || total === 0) return 0;
  const end = Math.min(lastMs - firstMs, options.fixedScheduleEndOffset ?? Number.POSITIVE_INFINITY);
  return (Math.max(0, end - (options.fixedScheduleStartOffset ?? 0)) * repeat) / speedup / 1000;
}
