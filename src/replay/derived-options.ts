/** Derives the schedule and the request settings of a replay from its options. */
import { parseGoodput, parseSetting, type ReplayOptions } from './options.ts';
import type { Overrides } from './request/literal.ts';
import type { ScheduleOptions, Timing } from './schedule/timing.ts';
import type { SendJob } from './send/job.ts';
import { type IndexOptions, indexCaptures } from './source/index-captures.ts';
import type { SortedIndex } from './source/sorted-index.ts';
import type { OnSkipped, SourceFile } from './source/types.ts';

export const overridesOf = (options: ReplayOptions): Overrides => ({
  model: options.model,
  set: options.set.map(parseSetting),
  stream: options.stream,
});

export function timingOf(options: ReplayOptions): Timing {
  const { requestRate, concurrency } = options;
  if (requestRate !== undefined) return { kind: 'rate', perSecond: requestRate, arrivals: options.arrivalPattern };
  if (concurrency !== undefined) return { kind: 'concurrency' };
  return {
    kind: 'fixed',
    autoOffset: options.autoOffset,
    startOffsetMs: options.startOffsetMs,
    endOffsetMs: options.endOffsetMs,
    speedup: options.speedup,
    spread: options.spreadSameSecond,
  };
}

/** Whether requests have scheduled times. */
export const isScheduled = (options: ReplayOptions): boolean => timingOf(options).kind !== 'concurrency';

export const scheduleOf = (options: ReplayOptions): ScheduleOptions => ({
  timing: timingOf(options),
  repeat: options.repeat,
  count: options.requestCount,
  seed: options.randomSeed,
});

/** The part of a send job that follows from the options alone. */
export const sendingOf = (
  options: ReplayOptions,
): Pick<SendJob, 'seed' | 'overrides' | 'timeoutMs' | 'cancellation' | 'objectives'> => ({
  seed: options.randomSeed,
  overrides: overridesOf(options),
  timeoutMs: options.timeout * 1000,
  ...(options.cancellationRate > 0
    ? { cancellation: { percent: options.cancellationRate, afterMs: options.cancellationDelay * 1000 } }
    : {}),
  objectives: parseGoodput(options.goodput),
});

/** Together with `--request-rate`, `--concurrency` is a cap, as in AIPerf. */
export const maxConcurrencyOf = (options: ReplayOptions): number =>
  Math.min(options.maxConcurrency ?? Number.POSITIVE_INFINITY, options.concurrency ?? Number.POSITIVE_INFINITY);

export interface CaptureWindow {
  fromMs?: number;
  toMs?: number;
}

/** Indexes the captures. A schedule from the captured times requires the time of every record. */
export const indexFor = (
  files: readonly SourceFile[],
  options: ReplayOptions,
  window: CaptureWindow,
  onSkipped: OnSkipped,
  more: Pick<IndexOptions, 'scan' | 'onRecord' | 'marks' | 'signal'> = {},
): Promise<SortedIndex> =>
  indexCaptures(files, { ...window, ...more, needsTime: timingOf(options).kind === 'fixed', onSkipped });

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
