/**
 * Adapts the number of concurrent calls to the capacity of the service. The limit grows while calls succeed, first
 * quickly, then slowly. It shrinks with the share of throttled calls: a few throttled calls have little effect, a whole
 * round halves the limit.
 */
import { MAX_CONCURRENT_CALLS } from '../transports/transport.ts';

const MIN_CONCURRENCY = 2;
/**
 * The limit doubles with each round of successful calls: 32 after one round. Before that, the first call runs alone to
 * find out which features the model supports.
 */
const START_CONCURRENCY = 16;
/** Growth of the limit by a round of answers, as many as the limit, after throttling has occurred once. */
const STEP = 2;
/**
 * Decrease for each throttled call: a round of throttled calls halves the limit. If a tenth is throttled, the limit
 * shrinks by a twentieth.
 */
const DECREASE = 0.5;

export type CallOutcome = 'answered' | 'throttled' | 'other';
/** Call it when the call has ended. Further calls have no effect. */
type Release = (outcome: CallOutcome) => void;

export class AdaptiveLimiter {
  private most = MAX_CONCURRENT_CALLS;
  private readonly followers: AdaptiveLimiter[] = [];
  private current = START_CONCURRENCY;
  /** The number of calls in flight. */
  active = 0;
  /** Starts the calls that wait, in the order in which they came. */
  private readonly waiting = new Set<() => void>();
  /** Until the first throttling. */
  private doubling = true;
  private pausedUntil = 0;
  private pauseTimer: NodeJS.Timeout | undefined;

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
    for (const follower of this.followers) follower.max = max;
  }

  /** Returns a limiter for another service whose upper bound is that of this one. */
  follower(): AdaptiveLimiter {
    const follower = new AdaptiveLimiter();
    follower.max = this.most;
    this.followers.push(follower);
    return follower;
  }

  /** Starts no call for `ms`, as the service demanded with `Retry-After`. */
  pause(ms: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, Date.now() + ms);
  }

  /** Waits for a place. @throws the signal's reason when it is aborted first */
  async acquire(signal?: AbortSignal): Promise<Release> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Release>();
    const cancel = (): void => {
      this.waiting.delete(start);
      reject(signal?.reason);
    };
    const start = (): void => {
      signal?.removeEventListener('abort', cancel);
      resolve(this.releaseOnce());
    };
    signal?.addEventListener('abort', cancel, { once: true });
    this.waiting.add(start);
    this.admit();
    return promise;
  }

  private admit(): void {
    const pause = this.pausedUntil - Date.now();
    if (pause > 0) {
      this.pauseTimer ??= setTimeout(() => {
        this.pauseTimer = undefined;
        this.admit();
      }, pause);
      return;
    }
    for (const start of this.waiting) {
      if (this.active >= this.limit) return;
      this.waiting.delete(start);
      this.active += 1;
      start();
    }
  }

  private releaseOnce(): Release {
    let released = false;
    return (outcome) => {
      if (released) return;
      released = true;
      this.active -= 1;
      if (outcome !== 'other') this.learn(outcome);
      this.admit();
    };
  }

  private learn(outcome: 'answered' | 'throttled'): void {
    if (outcome === 'throttled') {
      this.doubling = false;
      this.current = Math.max(MIN_CONCURRENCY, Math.min(this.current, this.most) - DECREASE);
    } else if (this.current < this.most) {
      this.current += this.doubling ? 1 : STEP / this.current;
    }
  }
}
