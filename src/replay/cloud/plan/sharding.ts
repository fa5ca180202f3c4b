/**
 * Cuts a schedule into shards. A shard is a window of time × a stripe: the requests of a window are dealt to its stripes in
 * turn, so that each stripe sends a thinned copy of the same load.
 */

import { MAX_SHARDS } from '../../../core/contract/replay.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import type { ShardBounds } from '../limits.ts';
import type { ShardPlan } from '../work-bucket/stored-plan.ts';

/** Requests per window. Their schedule is in memory while it is written: 120 bytes each, and twice that as text. */
const MAX_WINDOW_REQUESTS = 1_000_000;
const SECOND_MS = 1000;

export interface Window {
  requests: number;
  /** Bytes of the captures. */
  bytes: number;
  /** Most requests within any one second. */
  peakPerSecond: number;
  /** NaN without a schedule. */
  firstDueMs: number;
  lastDueMs: number;
}

/** Concurrent requests over all shards: a constant number or a cap. */
export interface Concurrency {
  requests: number;
  /** Whether the number is constant, because there is no schedule. */
  kept: boolean;
}

const WHAT_TO_DO =
  'a shorter time (source.from, source.to, endOffsetMs), fewer requests (requestCount), or a higher speedup';

/** Cuts a schedule into windows. Call `add` for each request in order, then `windows`. */
export class WindowCutter {
  readonly #bounds: ShardBounds;
  readonly #concurrency: Concurrency | undefined;
  readonly #windows: Window[] = [];
  #open: Window | undefined;
  #shards = 0;
  /** Due times of the requests of the last second, from `#head` on. */
  #recent: number[] = [];
  #head = 0;

  constructor(bounds: ShardBounds, concurrency?: Concurrency) {
    this.#bounds = bounds;
    this.#concurrency = concurrency;
  }

  /** @param dueMs never decreasing; NaN for all requests if there is no schedule */
  add(dueMs: number, bytes: number): void {
    if (this.#open && this.#isFull(this.#open, dueMs)) this.#close();
    this.#open ??= { requests: 0, bytes: 0, peakPerSecond: 0, firstDueMs: dueMs, lastDueMs: dueMs };
    const window = this.#open;
    window.requests++;
    if (window.requests > MAX_WINDOW_REQUESTS) {
      throw new PermanentError('TooManyRequests', 'A replay without a schedule has too many requests', {
        got: `more than ${MAX_WINDOW_REQUESTS} requests`,
        expected: `at most ${MAX_WINDOW_REQUESTS}; choose ${WHAT_TO_DO}`,
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
    // Without a schedule, due times are unknown and there is only one window.
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
        expected: `at most ${MAX_SHARDS} shards; choose ${WHAT_TO_DO}`,
      });
    }
    if (this.#concurrency && this.#windows.length > 1) {
      // Requests of one window may still be in flight or waiting when the next starts: no share of the cap is safe for both.
      throw new PermanentError('CappedReplayTooLong', 'A concurrency cap only works within one window', {
        got: `maxConcurrency or concurrency over more than ${this.#bounds.windowMs / SECOND_MS} s`,
        expected: `no cap, a smaller timeout (a window is what it leaves of a Lambda’s time), or ${WHAT_TO_DO}`,
      });
    }
  }
}

/** Returns how many stripes a window needs for its requests, bytes, peak and concurrency. */
export function stripesOf(window: Window, bounds: ShardBounds, concurrency?: Concurrency): number {
  const needed = Math.max(
    1,
    Math.ceil(window.requests / bounds.requests),
    Math.ceil(window.bytes / bounds.bytes),
    Math.ceil(window.peakPerSecond / bounds.perSecond),
    concurrency?.kept ? Math.ceil(concurrency.requests / bounds.connections) : 1,
  );
  const stripes = Math.min(needed, window.requests, concurrency?.requests ?? needed);
  // Each stripe has at least one request in flight, so a cap also bounds the number of stripes.
  if (stripes * bounds.requests < window.requests || stripes * bounds.bytes < window.bytes) {
    throw new PermanentError('TooManyRequests', 'There are too many requests for so little concurrency', {
      got: `${window.requests} requests of ${window.bytes} bytes, ${concurrency?.requests} at a time`,
      expected: `at most ${stripes * bounds.requests} requests of ${stripes * bounds.bytes} bytes; choose ${WHAT_TO_DO}, or more requests at a time`,
    });
  }
  return stripes;
}

/** The share of one stripe in the concurrency of a window. The shares add up to the whole. */
export const shareOf = (whole: number, stripes: number, stripe: number): number =>
  Math.floor(whole / stripes) + (stripe < whole % stripes ? 1 : 0);

/** The stripe of a request, by its ordinal within the window. */
export const stripeOf = (ordinal: number, stripes: number): number => ordinal % stripes;

/** Creates the shards of a window, one per stripe. Times and counts are filled in as requests are assigned. */
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
