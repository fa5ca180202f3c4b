/** Opens connections before they are needed. A burst that has to connect first arrives late and is measured as slow. */
import type { ConnectionPool } from '../http/pool.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { SendJob } from './job.ts';

const INTERVAL_MS = 20;
/** Connections are opened this long before the requests that need them. */
const AHEAD_MS = 1_500;
/**
 * Maximum number of connections opened in one interval: 1,600 per second without TLS, 400 with TLS. Opening a
 * connection takes this process about 50 µs, with TLS about a millisecond, and delays all requests that are due
 * meanwhile.
 */
const AT_A_TIME = 32;
const AT_A_TIME_TLS = 8;
/** No real client opens more. */
const MAX_WARM = 4096;
/** The assumed latency before the first reply. */
const FIRST_LATENCY_MS = 100;
/** Weight of a new reply in the moving average. */
const WEIGHT = 0.05;
/** Connections that will have been idle for too long within this time are closed now, so that a burst finds fresh ones. */
const SWEEP_AHEAD_MS = 200;
const SWEEP_EVERY = 5;
/** A request that has been in flight for this many times the usual latency, and for at least this long, may keep its connection. */
const SLOW_LATENCIES = 3;
const SLOW_MS = 300;
/**
 * After connections were lost unused, no connection is opened in advance for a while. The pause doubles until a reply
 * is received.
 */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
/** The clock does not wait longer than this for connections. */
const OPENING_MS = 5_000;

/**
 * Returns the number of spare connections that are needed now.
 *
 * The connections of a burst in flight are free again when the next burst starts. Opening others in addition would
 * double the number of connections, and the target would accept them while it answers the first burst. If half of a
 * burst is sent, each unsent request needs a connection (`soon`), and the next burst reuses the connections of the sent
 * half (`peak - young`).
 *
 * @param need `soon`: requests that become due before those in flight have been answered; `peak`: most requests that are due
 *   within the duration of one reply; `young`: requests that have been in flight for a short time only; `limit`: most
 *   requests in flight
 */
export const sparesNeeded = (need: Record<'soon' | 'peak' | 'inFlight' | 'young' | 'limit', number>): number =>
  Math.max(0, Math.min(Math.max(need.soon, need.peak - need.young), need.limit - need.inFlight));

export type Warmer = ReturnType<typeof connectionWarmer>;

export function connectionWarmer({ schedule, maxConcurrency }: SendJob, pool: ConnectionPool, dispatcher: Dispatcher) {
  const limit = Math.min(MAX_WARM, maxConcurrency);
  const atATime = pool.tls ? AT_A_TIME_TLS : AT_A_TIME;
  let latencyMs = FIRST_LATENCY_MS;
  let timer: NodeJS.Timeout | undefined;
  let rounds = 0;
  /** Connections that were opened ahead and lost unused. */
  let lost = 0;
  let pauseMs = 0;
  let pausedUntil = Number.NEGATIVE_INFINITY;

  /** Avoids flooding a target that refuses connections, or accepts and closes them. */
  const isPaused = (now: number): boolean => {
    if (pool.lost > lost) {
      pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * pauseMs));
      pausedUntil = now + pauseMs;
    }
    lost = pool.lost;
    return now < pausedUntil;
  };

  const openAhead = (): void => {
    const now = performance.now();
    const { idleLimitMs } = pool;
    if (++rounds % SWEEP_EVERY === 0) pool.sweep(now + Math.min(SWEEP_AHEAD_MS, idleLimitMs / 4));
    if (isPaused(now)) return;
    const { inFlight, queue } = dispatcher;
    const elapsed = dispatcher.elapsedMs();
    if (elapsed < schedule.firstDueMs - AHEAD_MS) return;
    // A target that soon closes idle connections must not get them long before they are needed.
    const ahead = Math.min(AHEAD_MS, idleLimitMs / 2);
    const needed = sparesNeeded({
      soon: queue.dueBefore(elapsed + Math.min(latencyMs, ahead)),
      peak: queue.peak(latencyMs, elapsed + ahead),
      inFlight,
      young: dispatcher.youngInFlight(now, Math.max(SLOW_MS, SLOW_LATENCIES * latencyMs)),
      limit,
    });
    pool.warm(needed, atATime);
  };

  return {
    observe: (replyMs: number): void => {
      latencyMs += WEIGHT * (replyMs - latencyMs);
      pauseMs = 0;
    },
    /**
     * Opens all connections that the first seconds need, before the clock starts.
     *
     * @param untilFirstMs time until the first request is due. If it is long, no connection is opened yet: it would be
     *   idle for too long
     */
    beforeStart: async (untilFirstMs: number): Promise<void> => {
      if (untilFirstMs > AHEAD_MS) return;
      const { closedLoop, firstDueMs } = schedule;
      const { queue } = dispatcher;
      const needed = closedLoop ? queue.length : queue.peak(latencyMs, firstDueMs + AHEAD_MS);
      pool.warm(Math.min(limit, needed));
      await pool.warmed(OPENING_MS);
    },
    start: (): void => {
      timer = setInterval(openAhead, INTERVAL_MS);
    },
    stop: (): void => clearInterval(timer),
  };
}
