/** Decides when each captured request is sent. */

import { Random } from '../../core/values/random.ts';
import { isByCapturedTimes, isScheduled } from '../derived-options.ts';
import type { ReplayOptions } from '../options.ts';
import type { IndexEntry } from '../source/types.ts';

export interface ScheduledEntry {
  entry: IndexEntry;
  /** Milliseconds after the start; NaN if the request is sent as soon as there is room. */
  dueMs: number;
  pass: number;
  /** Its place in the schedule, from 0. */
  number: number;
}

/**
 * Returns the maximum number of requests that are due within less than `windowMs` of each other, up to `untilMs`. The
 * requests must be sorted by time.
 */
export function mostAtOnce(requests: readonly Pick<ScheduledEntry, 'dueMs'>[], windowMs: number, untilMs = Infinity) {
  let most = 0;
  let from = 0;
  for (const [to, { dueMs }] of requests.entries()) {
    if (dueMs > untilMs) break;
    while (dueMs - (requests[from]?.dueMs ?? 0) >= windowMs) from++;
    most = Math.max(most, to - from + 1);
  }
  return most;
}

/** The captures, sorted by time. They can be read several times. */
export interface EntrySource {
  firstMs: number;
  batches(): Iterable<IndexEntry[]>;
}

const SECOND_MS = 1000;
/** Gap between two passes: captured times have whole seconds, so the last record's second is played to its end. */
const PASS_GAP_MS = SECOND_MS;

/** A schedule for the sender: computed while it is sent, or beforehand. */
export interface SendSchedule {
  /**
   * Yields the entries in batches, in the order of their time.
   *
   * @param skipped returns how many could not be sent so far. They do not count towards `requestCount`
   */
  entries(skipped: () => number): Iterable<ScheduledEntry[]>;
  /** Yields the entries that are sent before the clock starts. Absent without a warm-up. */
  warmup?: SendSchedule['entries'];
  /** Returns the number of entries if `skipped` of them cannot be sent. */
  size(skipped: number): number;
  /** Time at which the first entry is due, in milliseconds after the start of the clock. */
  firstDueMs: number;
  /** Whether requests have no times, and are sent as soon as there is room. */
  closedLoop: boolean;
}

/** Computes the schedule from the index of the captures while it is sent. */
export function scheduleFromIndex(source: EntrySource, options: ReplayOptions): SendSchedule {
  const first = { ...options, requestRate: undefined, concurrency: 1, requestCount: options.warmup };
  return {
    entries: (skipped) => schedule(source, options, skipped),
    ...(options.warmup > 0 ? { warmup: (skipped: () => number) => schedule(source, first, skipped) } : {}),
    size: (skipped) => {
      let entries = 0;
      for (const batch of onePass(source, options)) entries += batch.length;
      return Math.min(entries * options.repeat, (options.requestCount ?? Number.POSITIVE_INFINITY) + skipped);
    },
    firstDueMs: 0,
    closedLoop: !isScheduled(options),
  };
}

/** Yields the schedule in batches, in the order of the due times. @param skipped as for `SendSchedule.entries` */
export function* schedule(source: EntrySource, options: ReplayOptions, skipped = () => 0): Generator<ScheduledEntry[]> {
  const { requestRate, speedup, repeat, requestCount: count = Number.POSITIVE_INFINITY } = options;
  const isFixed = isByCapturedTimes(options);
  const random = new Random(options.randomSeed);
  let given = 0;
  let rateDue = 0;
  let passStart = 0;
  for (let pass = 0; pass < repeat; pass++) {
    let any = false;
    let lastDue = passStart;
    for (const kept of onePass(source, options, random)) {
      let batch: ScheduledEntry[] = [];
      for (const { entry, offsetMs } of kept) {
        if (given - skipped() >= count && batch.length > 0) {
          // If some of these cannot be sent, there is room for more.
          yield batch;
          batch = [];
        }
        if (given - skipped() >= count) return;
        let dueMs = Number.NaN;
        if (isFixed) {
          dueMs = passStart + offsetMs;
          lastDue = Math.max(lastDue, dueMs);
        } else if (requestRate !== undefined) {
          dueMs = rateDue;
          rateDue += SECOND_MS / requestRate;
        }
        batch.push({ entry, dueMs, pass, number: given++ });
        any = true;
      }
      if (batch.length > 0) yield batch;
    }
    if (!any) return;
    passStart = lastDue + (isFixed ? PASS_GAP_MS / speedup : 0);
  }
}

interface Offset {
  entry: IndexEntry;
  offsetMs: number;
}

/** Yields the entries of one pass with their offsets from its start. */
function* onePass(source: EntrySource, options: ReplayOptions, random = new Random(0)): Generator<Offset[]> {
  if (isByCapturedTimes(options)) yield* fixedBatches(source, options, random);
  else for (const batch of source.batches()) yield batch.map((entry) => ({ entry, offsetMs: 0 }));
}

/** Yields the entries in the window with their offset from the start of the schedule, after speedup and spread. */
function* fixedBatches(source: EntrySource, options: ReplayOptions, random: Random): Generator<Offset[]> {
  const { fixedScheduleStartOffset, fixedScheduleEndOffset, fixedScheduleAutoOffset, speedup, spreadSameSecond } =
    options;
  const from = fixedScheduleStartOffset ?? Number.NEGATIVE_INFINITY;
  const to = fixedScheduleEndOffset ?? Number.POSITIVE_INFINITY;
  let zeroMs = fixedScheduleAutoOffset ? undefined : (fixedScheduleStartOffset ?? 0);
  /** The requests of one second, kept until the second is complete. */
  let second: IndexEntry[] = [];
  const flush = (nextMs = Number.POSITIVE_INFINITY): Offset[] => {
    const spread = spreadOffsets(second, nextMs, spreadSameSecond, random);
    const offsets = second.map((entry, i) => ({
      entry,
      offsetMs: (entry.timeMs - source.firstMs - (zeroMs ?? 0) + (spread[i] ?? 0)) / speedup,
    }));
    second = [];
    return offsets;
  };
  for (const batch of source.batches()) {
    let ready: Offset[] = [];
    for (const entry of batch) {
      const relative = entry.timeMs - source.firstMs;
      if (relative < from) continue;
      if (relative > to) {
        yield [...ready, ...flush()];
        return;
      }
      zeroMs ??= relative;
      if (second.length > 0 && second[0]?.timeMs !== entry.timeMs) ready = ready.concat(flush(entry.timeMs));
      second.push(entry);
    }
    if (ready.length > 0) yield ready;
  }
  if (second.length > 0) yield flush();
}

/**
 * Returns the offsets within the second for the requests of one captured time, in ascending order. A time with a fraction
 * is used unchanged. If the next captured time is in the same second, the offsets stay before it.
 */
function spreadOffsets(
  entries: IndexEntry[],
  nextMs: number,
  spread: ReplayOptions['spreadSameSecond'],
  random: Random,
): number[] {
  const timeMs = entries[0]?.timeMs ?? 0;
  if (spread === 'none' || timeMs % SECOND_MS !== 0) return [];
  const room = Math.min(SECOND_MS, nextMs - timeMs);
  if (spread === 'even') return entries.map((_, i) => (i * room) / entries.length);
  // For a given number of arrivals, a Poisson process distributes them uniformly.
  return entries.map(() => random.next() * room).sort((a, b) => a - b);
}

// ------------------------------------------------------------------------------------------------------------ the rest
// The part of a schedule that a run did not send.

export interface Rest {
  /** Captured time of its first request, epoch ms. */
  timeMs: number;
  /** Repetition of the captures that it begins in, from 0. */
  pass: number;
  /** Requests of the same time that were sent, or could not be. */
  again: number;
}

/**
 * Finds the rest of a schedule. Requests are sent in its order.
 *
 * @param skipped requests that could not be sent
 * @returns `undefined` if nothing is left
 */
export function restOf(
  source: EntrySource,
  options: ReplayOptions,
  { sent, skipped }: { sent: number; skipped: number },
): Rest | undefined {
  let left = sent + skipped;
  let rest: Rest | undefined;
  for (const batch of schedule(source, options, () => skipped)) {
    for (const { entry, pass } of batch) {
      const { timeMs } = entry;
      const isSame = rest?.timeMs === timeMs && rest.pass === pass;
      rest = { timeMs, pass, again: isSame ? (rest?.again ?? 0) + 1 : 0 };
      if (left-- === 0) return rest;
    }
  }
  return undefined;
}
