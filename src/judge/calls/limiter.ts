/**
 * Adapts the number of concurrent calls to the capacity of the service. The limit grows while calls succeed, first quickly,
 * then slowly. It shrinks with the share of throttled calls: a few cost little, a round of them halves the limit.
 */
import { MAX_CONCURRENT_CALLS } from '../transports/transport.ts';

export interface LimiterOptions {
  /** Upper bound of the limit. */
  max?: number;
  min?: number;
  start?: number;
  now?: () => number;
}

const MIN_CONCURRENCY = 2;
/** The limit doubles with each round of successful calls: 32 after one round. A first call alone finds out what the model supports. */
const START_CONCURRENCY = 16;
/** Growth of the limit per round of calls without throttling, after throttling has occurred once. */
const STEP = 2;
/** If all calls of a round are throttled, the limit is halved. If a tenth is, it shrinks by a twentieth. */
const DECREASE = 0.5;

export type CallOutcome = 'answered' | 'throttled' | 'other';
/** Call it when the call has ended. Further calls have no effect. */
type Release = (outcome: CallOutcome) => void;

interface Waiter {
  resolve: (release: Release) => void;
  reject: (reason: unknown) => void;
  signal: AbortSignal | undefined;
  onAbort: () => void;
}

export class AdaptiveLimiter {
  private most: number;
  private readonly min: number;
  private readonly now: () => number;
  private current: number;
  private inFlight = 0;
  private waiting: Waiter[] = [];
  /** Until the first throttling. */
  private doubling = true;
  /** The current round, which is as many calls as the limit. */
  private round = { calls: 0, throttled: 0 };
  private pausedUntil = 0;
  private pauseTimer: NodeJS.Timeout | undefined;

  constructor({
    max = MAX_CONCURRENT_CALLS,
    min = MIN_CONCURRENCY,
    start = START_CONCURRENCY,
    now = Date.now,
  }: LimiterOptions = {}) {
    this.most = max;
    this.min = Math.min(min, max);
    this.now = now;
    this.current = Math.min(start, max);
  }

  /** The number of calls that may run concurrently now. */
  get limit(): number {
    return Math.floor(Math.min(this.current, this.most));
  }

  /** The upper bound of the limit. It may be 0 for a while: calls wait then. */
  get max(): number {
    return this.most;
  }

  set max(max: number) {
    this.most = max;
    this.admit();
  }

  get active(): number {
    return this.inFlight;
  }

  /** Starts no call for `ms`, as the service demanded with `Retry-After`. */
  pause(ms: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, this.now() + ms);
  }

  /** Waits for a place. @throws the signal's reason when it is aborted first */
  async acquire(signal?: AbortSignal): Promise<Release> {
    signal?.throwIfAborted();
    return new Promise<Release>((resolve, reject) => {
      const waiter: Waiter = {
        resolve,
        reject,
        signal,
        onAbort: () => {
          this.waiting = this.waiting.filter((other) => other !== waiter);
          reject(signal?.reason);
        },
      };
      signal?.addEventListener('abort', waiter.onAbort, { once: true });
      this.waiting.push(waiter);
      this.admit();
    });
  }

  private admit(): void {
    const pause = this.pausedUntil - this.now();
    if (pause > 0) {
      this.pauseTimer ??= setTimeout(() => {
        this.pauseTimer = undefined;
        this.admit();
      }, pause);
      return;
    }
    while (this.inFlight < this.limit) {
      const waiter = this.waiting.shift();
      if (waiter === undefined) return;
      waiter.signal?.removeEventListener('abort', waiter.onAbort);
      this.inFlight += 1;
      waiter.resolve(this.releaseOnce());
    }
  }

  private releaseOnce(): Release {
    let released = false;
    return (outcome) => {
      if (released) return;
      released = true;
      this.inFlight -= 1;
      if (outcome !== 'other') this.learn(outcome);
      this.admit();
    };
  }

  private learn(outcome: 'answered' | 'throttled'): void {
    this.round.calls += 1;
    if (outcome === 'throttled') {
      this.round.throttled += 1;
      this.doubling = false;
    } else if (this.doubling && this.current < this.most) {
      // Where the bound is 0 for a while, an answer that comes then must not lower the limit: it would never grow again.
      this.current += 1;
    }
    if (this.round.calls < this.limit) return;
    const share = this.round.throttled / this.round.calls;
    this.round = { calls: 0, throttled: 0 };
    if (this.doubling) return;
    const next = this.current * (1 - share * DECREASE) + STEP * (1 - share);
    this.current = Math.max(this.min, Math.min(this.most, next));
  }
}
