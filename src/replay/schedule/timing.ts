/** When each captured request is sent. */
import { Random } from '../../shared/random.ts';
import type { IndexEntry } from '../source/types.ts';

export type SpreadKind = 'none' | 'even' | 'poisson';

/** From the captured times. Offsets are milliseconds after the first record, inclusive. */
export interface FixedSchedule {
  kind: 'fixed';
  /** The first request that is kept is sent at once, however long after the first record it came. */
  autoOffset: boolean;
  startOffsetMs?: number;
  endOffsetMs?: number;
  /** 2 replays an hour in half an hour. */
  speedup: number;
  /** What becomes of requests that were captured in the same second: captured times have whole seconds. */
  spread: SpreadKind;
}

/** A number of requests at any time. */
interface ConstantConcurrency {
  kind: 'concurrency';
}

/** A number of requests a second. */
interface ConstantRate {
  kind: 'rate';
  perSecond: number;
  arrivals: 'poisson' | 'constant';
}

export type Timing = FixedSchedule | ConstantConcurrency | ConstantRate;

export interface ScheduledEntry {
  entry: IndexEntry;
  /** Milliseconds after the start; NaN: as soon as there is room. */
  dueMs: number;
  pass: number;
  /** Its conversation, where that was found beforehand; without a name it is called as its first request is. */
  turn?: { session: number; turnIndex: number; conversationId?: string };
}

export interface ScheduleOptions {
  timing: Timing;
  /** Times the captures are gone through; at least 1. */
  repeat: number;
  /** Most requests in all, over all passes. */
  count?: number;
  seed: number;
}

/** The captures in order, as often as they are asked for. */
export interface EntrySource {
  total: number;
  firstMs: number;
  batches(): Iterable<IndexEntry[]>;
}

const SECOND_MS = 1000;
/** Between two passes: captured times have whole seconds, so the last record's second is played to its end. */
const PASS_GAP_MS = SECOND_MS;

/** What whoever takes the entries tells of them. */
export interface Feeding {
  /** How many of those given so far came to nothing: they do not count among `ScheduleOptions.count`. */
  skipped(): number;
  /** No more are wanted but their number: passes that have not begun are told by that. */
  stopped(): boolean;
  passOver(entries: number): void;
}

/** A schedule as the sender needs it, made while it is sent or made beforehand. */
export interface SendSchedule {
  /** Yields the entries in batches, in the order of their time. */
  entries(feeding: Partial<Feeding>): AsyncIterable<ScheduledEntry[]>;
  /** Yields the entries that are sent before the clock starts. Absent without a warm-up. */
  warmup?: (feeding: Partial<Feeding>) => AsyncIterable<ScheduledEntry[]>;
  /** When the first entry is due, milliseconds after the start of the clock. */
  firstDueMs: number;
  /** Whether requests have no times: each is sent as soon as there is room. */
  closedLoop: boolean;
}

/** Makes the schedule from the index of the captures while it is sent. @param warmup requests sent beforehand */
export const scheduleFromIndex = (source: EntrySource, options: ScheduleOptions, warmup: number): SendSchedule => ({
  entries: (feeding) => schedule(source, options, feeding),
  ...(warmup > 0
    ? {
        warmup: (feeding: Partial<Feeding>) =>
          schedule(source, { ...options, timing: { kind: 'concurrency' }, count: warmup }, feeding),
      }
    : {}),
  firstDueMs: 0,
  closedLoop: options.timing.kind === 'concurrency',
});

/** The schedule in batches, in the order of their time. */
export async function* schedule(
  source: EntrySource,
  options: ScheduleOptions,
  { skipped = () => 0, stopped = () => false, passOver }: Partial<Feeding> = {},
): AsyncGenerator<ScheduledEntry[]> {
  const { timing, repeat, count = Number.POSITIVE_INFINITY } = options;
  const random = new Random(options.seed);
  let given = 0;
  let rateDue = 0;
  let passStart = 0;
  let firstPass = 0;
  for (let pass = 0; pass < repeat; pass++) {
    if (pass === 1) firstPass = given;
    if (pass > 0 && stopped()) {
      passOver?.(Math.min(firstPass * (repeat - pass), count - (given - skipped())));
      return;
    }
    let any = false;
    let lastDue = passStart;
    for await (const kept of timing.kind === 'fixed' ? fixedBatches(source, timing, random) : plainBatches(source)) {
      let batch: ScheduledEntry[] = [];
      for (const { entry, offsetMs } of kept) {
        if (given - skipped() >= count && batch.length > 0) {
          // Whoever takes them may find that some cannot be sent: then there is room for more.
          yield batch;
          batch = [];
        }
        if (given - skipped() >= count) return;
        let dueMs = Number.NaN;
        if (timing.kind === 'fixed') {
          dueMs = passStart + offsetMs;
          lastDue = Math.max(lastDue, dueMs);
        } else if (timing.kind === 'rate') {
          dueMs = rateDue;
          const mean = SECOND_MS / timing.perSecond;
          rateDue += timing.arrivals === 'poisson' ? random.exponential(mean) : mean;
        }
        batch.push({ entry, dueMs, pass });
        given++;
        any = true;
      }
      if (batch.length > 0) yield batch;
    }
    if (!any) return;
    passStart = lastDue + (timing.kind === 'fixed' ? PASS_GAP_MS / timing.speedup : 0);
  }
}

interface Offset {
  entry: IndexEntry;
  offsetMs: number;
}

function* plainBatches(source: EntrySource): Generator<Offset[]> {
  for (const batch of source.batches()) yield batch.map((entry) => ({ entry, offsetMs: 0 }));
}

/** Entries inside the window with their offset from the schedule's zero, sped up and spread. */
function* fixedBatches(source: EntrySource, timing: FixedSchedule, random: Random): Generator<Offset[]> {
  const from = timing.startOffsetMs ?? Number.NEGATIVE_INFINITY;
  const to = timing.endOffsetMs ?? Number.POSITIVE_INFINITY;
  let zeroMs = timing.autoOffset ? undefined : (timing.startOffsetMs ?? 0);
  /** The requests of one second, held until the second is over. */
  let second: IndexEntry[] = [];
  const flush = (nextMs = Number.POSITIVE_INFINITY): Offset[] => {
    const spread = spreadOffsets(second, nextMs, timing.spread, random);
    const offsets = second.map((entry, i) => ({
      entry,
      offsetMs: (entry.timeMs - source.firstMs - (zeroMs ?? 0) + (spread[i] ?? 0)) / timing.speedup,
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
 * Where in their second the requests of one captured time go, rising. A time with a fraction is taken as it is; where
 * the next captured time is in the same second, they stay before it.
 */
function spreadOffsets(entries: IndexEntry[], nextMs: number, spread: SpreadKind, random: Random): number[] {
  const timeMs = entries[0]?.timeMs ?? 0;
  if (spread === 'none' || timeMs % SECOND_MS !== 0) return [];
  const room = Math.min(SECOND_MS, nextMs - timeMs);
  if (spread === 'even') return entries.map((_, i) => (i * room) / entries.length);
  // Given their number, the arrivals of a Poisson process are uniform in the second.
  return entries.map(() => random.next() * room).sort((a, b) => a - b);
}
