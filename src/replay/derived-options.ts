/** What follows from the options of a replay: how it is timed. */
import type { ReplayOptions } from './options.ts';

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
  const end = Math.min(spanMs, options.endOffsetMs ?? spanMs);
  const windowMs = Math.max(0, end - (options.startOffsetMs ?? 0));
  return requestRate === undefined || records === undefined
    ? (windowMs * repeat) / speedup / 1000
    : Math.min(requestCount, records * repeat) / requestRate;
}
