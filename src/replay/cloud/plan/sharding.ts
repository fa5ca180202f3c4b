/**
 * Cuts a schedule into shards: a window of time × a stripe. The requests of a window go to its stripes in turn, so that
 * each sends a thinned copy of the same load.
 */

import { MAX_SHARDS } from '../../../contract/replay.ts';
import { PermanentError } from '../../../shared/errors.ts';
import type { ShardBounds } from '../limits.ts';
import type { ShardPlan } from '../work-bucket/stored-plan.ts';

/** Requests of a window: their schedule is held in memory while it is written, 120 bytes each and twice that as text. */
const MAX_WINDOW_REQUESTS = 1_000_000;
const SECOND_MS = 1000;

export interface Window {
  requests: number;
  /** Bytes of their captures. */
  bytes: number;
  /** Most requests within any one second. */
  peakPerSecond: number;
  /** NaN without a schedule. */
  firstDueMs: number;
  lastDueMs: number;
}

/** Most requests at the same time over all shards: a number that is kept up, or a cap. */
export interface Concurrency {
  requests: number;
  /** Kept up: there is no schedule. */
  kept: boolean;
}

const WHAT_TO_DO =
  'a shorter time (source.from, source.to, endOffsetMs), fewer requests (requestCount), or a higher speedup';

/** Finds the windows of a schedule that is told request by request, in its order. */
export class WindowCutter {
  readonly #bounds: ShardBounds;
  readonly #concurrency: Concurrency | undefined;
  readonly #windows: Window[] = [];
  #open: Window | undefined;
  #shards = 0;
  /** Times of the last second's requests, from `#head` on. */
  #recent: number[] = [];
  #head = 0;

  constructor(bounds: ShardBounds, concurrency?: Concurrency) {
    this.#bounds = bounds;
    this.#concurrency = concurrency;
  }

  /** @param dueMs not before the one before; NaN for all without a schedule */
  add(dueMs: number, bytes: number): void {
    if (this.#open && this.#isFull(this.#open, dueMs)) this.#close();
    this.#open ??= { requests: 0, bytes: 0, peakPerSecond: 0, firstDueMs: dueMs, lastDueMs: dueMs };
    const window = this.#open;
    window.requests++;
    if (window.requests > MAX_WINDOW_REQUESTS) {
      throw new PermanentError('TooManyRequests', 'Without a schedule all requests are one window', {
        got: `more than ${MAX_WINDOW_REQUESTS} requests`,
        expected: `${MAX_WINDOW_REQUESTS} at most; choose ${WHAT_TO_DO}`,
      });
    }
    window.bytes += bytes;
    window.lastDueMs = dueMs;
    if (Number.isNaN(dueMs)) return;
    this.#recent.push(dueMs);
    while (dueMs - (this.#recent[this.#head] ?? dueMs) >= SECOND_MS) this.#head++;
    window.peakPerSecond = Math.max(window.peakPerSecond, this.#recent.length - this.#head);
    if (this.#head > 4096 && this.#head * 2 > this.#recent.length) {
      this.#recent = this.#recent.slice(this.#head);
      this.#head = 0;
    }
  }

  /** @throws PermanentError `TooManyShards`, `CappedReplayTooLong`, `TooManyRequests` */
  windows(): Window[] {
    if (this.#open) this.#close();
    return this.#windows;
  }

  #isFull(window: Window, dueMs: number): boolean {
    // Without a schedule all goes at once, and nobody knows when: one window.
    if (Number.isNaN(dueMs)) return false;
    return dueMs - window.firstDueMs >= this.#bounds.windowMs || window.requests >= MAX_WINDOW_REQUESTS;
  }

  #close(): void {
    const window = this.#open as Window;
    this.#windows.push(window);
    this.#open = undefined;
    this.#recent = [];
    this.#head = 0;
    this.#shards += stripesOf(window, this.#bounds, this.#concurrency);
    if (this.#shards > MAX_SHARDS) {
      throw new PermanentError('TooManyShards', 'The replay is too large for one execution', {
        got: `more than ${MAX_SHARDS} shards in the first ${Math.ceil(window.lastDueMs / SECOND_MS) || 0} s`,
        expected: `${MAX_SHARDS} shards at most; choose ${WHAT_TO_DO}`,
      });
    }
    if (this.#concurrency && this.#windows.length > 1) {
      // Replies of one window may be under way when the next begins, and what waited for the cap even longer: no share of
      // the cap would be safe for both.
      throw new PermanentError('CappedReplayTooLong', 'A cap on the requests under way holds within one window only', {
        got: `maxConcurrency or concurrency over more than ${this.#bounds.windowMs / SECOND_MS} s`,
        expected: `no cap, a smaller timeout (a window is what it leaves of a Lambda’s time), or ${WHAT_TO_DO}`,
      });
    }
  }
}

/** Stripes of a window: as many as its number of requests, its bytes, its peak and its concurrency need. */
export function stripesOf(window: Window, bounds: ShardBounds, concurrency?: Concurrency): number {
  const needed = Math.max(
    1,
    Math.ceil(window.requests / bounds.requests),
    Math.ceil(window.bytes / bounds.bytes),
    Math.ceil(window.peakPerSecond / bounds.perSecond),
    concurrency?.kept ? Math.ceil(concurrency.requests / bounds.connections) : 1,
  );
  const stripes = Math.min(needed, window.requests, concurrency?.requests ?? needed);
  // Every stripe sends one request at a time at least, so a cap also bounds their number.
  if (stripes * bounds.requests < window.requests || stripes * bounds.bytes < window.bytes) {
    throw new PermanentError('TooManyRequests', 'So few requests at a time cannot be that many in all', {
      got: `${window.requests} requests of ${window.bytes} bytes, ${concurrency?.requests} at a time`,
      expected: `${stripes * bounds.requests} requests of ${stripes * bounds.bytes} bytes at most; choose ${WHAT_TO_DO}, or more requests at a time`,
    });
  }
  return stripes;
}

/** The stripe's part of what all of a window may have under way; the parts add up to the whole. */
export const shareOf = (whole: number, stripes: number, stripe: number): number =>
  Math.floor(whole / stripes) + (stripe < whole % stripes ? 1 : 0);

/** The stripe of a window's request, by its ordinal within the window. */
export const stripeOf = (ordinal: number, stripes: number): number => ordinal % stripes;

/** The shards of a window, in the order of their stripes; times and numbers are filled in as requests are assigned. */
export function shardsOf(
  window: Window,
  ordinal: number,
  firstShard: number,
  bounds: ShardBounds,
  concurrency?: Concurrency,
): ShardPlan[] {
  const stripes = stripesOf(window, bounds, concurrency);
  return Array.from({ length: stripes }, (_, stripe) => ({
    shard: firstShard + stripe,
    window: ordinal,
    stripe,
    requests: 0,
    firstDueMs: null,
    lastDueMs: null,
    maxConcurrency: concurrency ? shareOf(concurrency.requests, stripes, stripe) : null,
  }));
}
