/**
 * Cuts a schedule into shards, and writes the part of each. A shard is a window of time × a stripe: the requests of a window
 * are dealt to its stripes in turn, so that each stripe sends a thinned copy of the same load.
 */

import type { Work } from '../../../core/aws/storage.ts';
import { MAX_SHARDS } from '../../../core/contract/replay.ts';
import { replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import { forEachConcurrently } from '../../../core/process/concurrency.ts';
import { mostAtOnce, type ScheduledEntry } from '../../schedule/timing.ts';
import type { ShardBounds } from '../limits.ts';
import { type CaptureObject, scheduleOf } from '../work-bucket/schedule-file.ts';
import type { ShardPlan } from '../work-bucket/stored-plan.ts';

/** Requests per window. They are in memory until they are written: 150 bytes each, and 100 as text. */
const MAX_WINDOW_REQUESTS = 1_000_000;
const SECOND_MS = 1000;
/** Schedules that are written concurrently. */
const WRITES = 16;

interface ScheduleSource {
  batches: Iterable<ScheduledEntry[]>;
  files: readonly CaptureObject[];
  /** Number of requests of the first window that shard 0 also sends before the clock starts. */
  warmup: number;
}

const WHAT_TO_DO =
  'a shorter time (source.from, source.to, fixedScheduleEndOffset), fewer requests (requestCount), or a higher speedup';

/**
 * Cuts a schedule into windows.
 *
 * @param batches due times never decrease; without a schedule, all are NaN, and there is only one window
 * @throws PermanentError `TooManyRequests`
 */
function* windowsOf(batches: Iterable<ScheduledEntry[]>, { windowMs }: ShardBounds): Generator<ScheduledEntry[]> {
  let window: ScheduledEntry[] = [];
  for (const batch of batches) {
    for (const scheduled of batch) {
      const { dueMs } = scheduled;
      const isLong = dueMs - (window[0]?.dueMs ?? dueMs) >= windowMs;
      if (isLong || (window.length >= MAX_WINDOW_REQUESTS && !Number.isNaN(dueMs))) {
        yield window;
        window = [];
      }
      if (window.push(scheduled) <= MAX_WINDOW_REQUESTS) continue;
      throw new PermanentError('TooManyRequests', 'A replay without a schedule has too many requests', {
        got: `more than ${MAX_WINDOW_REQUESTS} requests`,
        expected: `at most ${MAX_WINDOW_REQUESTS}; choose ${WHAT_TO_DO}`,
      });
    }
  }
  if (window.length > 0) yield window;
}

/**
 * Writes the schedules of all shards, and returns the shards in the order of their windows.
 *
 * @throws PermanentError `TooManyShards`, `CappedReplayTooLong`, `TooManyRequests`
 */
export async function writeShards(
  { batches, files, warmup }: ScheduleSource,
  bounds: ShardBounds,
  { storage, workBucket, run }: Work & { run: string },
): Promise<ShardPlan[]> {
  const plans: ShardPlan[] = [];
  let windows = 0;
  for (const window of windowsOf(batches, bounds)) {
    const shards = shardsOf(window, windows++, plans.length, bounds);
    assertFew(plans.length + shards.length, windows, window, bounds);
    await forEachConcurrently(WRITES, shards, ({ plan, requests }) => {
      const warming = plan.shard === 0 ? window.slice(0, warmup).map((one) => ({ ...one, dueMs: Number.NaN })) : [];
      const own = scheduleOf(files, [...warming, ...requests]);
      return storage.putJson(workBucket, replayKeys.schedule(run, plan.shard), own);
    });
    plans.push(...shards.map(({ plan }) => plan));
  }
  return plans;
}

function assertFew(
  shards: number,
  windows: number,
  window: readonly ScheduledEntry[],
  { windowMs, concurrency }: ShardBounds,
): void {
  if (shards > MAX_SHARDS) {
    throw new PermanentError('TooManyShards', 'The replay is too large for one execution', {
      got: `more than ${MAX_SHARDS} shards in the first ${Math.ceil((window.at(-1)?.dueMs ?? 0) / SECOND_MS) || 0} s`,
      expected: `at most ${MAX_SHARDS} shards; choose ${WHAT_TO_DO}`,
    });
  }
  if (Number.isFinite(concurrency) && windows > 1) {
    // Requests of one window may still be in flight or waiting when the next window starts, so no share of the cap is
    // safe for both.
    throw new PermanentError('CappedReplayTooLong', 'A concurrency cap only works within one window', {
      got: `maxConcurrency or concurrency over more than ${windowMs / SECOND_MS} s`,
      expected: `no cap, a smaller timeout (a window is what it leaves of a Lambda’s time), or ${WHAT_TO_DO}`,
    });
  }
}

/** Returns how many stripes a window needs for its requests, bytes, peak and concurrency. */
function stripesOf(window: readonly ScheduledEntry[], bounds: ShardBounds): number {
  const requests = window.length;
  const bytes = window.reduce((sum, { entry }) => sum + entry.length, 0);
  const isScheduled = !Number.isNaN(window[0]?.dueMs);
  const needed = Math.max(
    1,
    Math.ceil(requests / bounds.requests),
    Math.ceil(bytes / bounds.bytes),
    Math.ceil(isScheduled ? mostAtOnce(window, SECOND_MS) / bounds.perSecond : bounds.concurrency / bounds.connections),
  );
  const stripes = Math.min(needed, requests, bounds.concurrency);
  // Each stripe has at least one request in flight, so a cap also bounds the number of stripes.
  if (stripes * bounds.requests < requests || stripes * bounds.bytes < bytes) {
    throw new PermanentError('TooManyRequests', 'There are too many requests for so little concurrency', {
      got: `${requests} requests of ${bytes} bytes, ${bounds.concurrency} at a time`,
      expected: `at most ${stripes * bounds.requests} requests of ${stripes * bounds.bytes} bytes; choose ${WHAT_TO_DO}, or more requests at a time`,
    });
  }
  return stripes;
}

/** Returns one stripe's share of a window's number. The shares of all stripes add up to the number. */
const shareOf = (whole: number, stripes: number, stripe: number): number =>
  Math.floor(whole / stripes) + (stripe < whole % stripes ? 1 : 0);

const dueOf = ({ dueMs = Number.NaN }: Partial<ScheduledEntry> = {}): number | null =>
  Number.isNaN(dueMs) ? null : dueMs;

/** Returns the shards of a window, one per stripe, with their requests. */
function shardsOf(
  window: readonly ScheduledEntry[],
  ordinal: number,
  firstShard: number,
  bounds: ShardBounds,
): { plan: ShardPlan; requests: ScheduledEntry[] }[] {
  const stripes = stripesOf(window, bounds);
  return Array.from({ length: stripes }, (_, stripe) => {
    const own = { length: shareOf(window.length, stripes, stripe) };
    const requests = Array.from(own, (_, i) => window[stripe + i * stripes] as ScheduledEntry);
    const plan = {
      shard: firstShard + stripe,
      window: ordinal,
      requests: requests.length,
      firstDueMs: dueOf(requests[0]),
      maxConcurrency: Number.isFinite(bounds.concurrency) ? shareOf(bounds.concurrency, stripes, stripe) : null,
    };
    return { plan, requests };
  });
}
