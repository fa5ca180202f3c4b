/** The contract of the sender: the job that it is given, its live figures and its outcome. */
import type { RunClock } from '../clock.ts';
import type { ConnectionPool } from '../http/pool.ts';
import type { Measured } from '../measure/measure.ts';
import type { PreparerOptions } from '../request/preparer.ts';
import type { SendSchedule } from '../schedule/timing.ts';

/** The part of a replay that one process sends: the whole replay or a shard. */
export interface SendJob extends PreparerOptions {
  schedule: SendSchedule;
  /** Most requests in flight: the number that is kept in flight where there is no schedule, otherwise a cap. */
  maxConcurrency: number;
  /**
   * Called at the end of each request. If it throws, it is called again with an error in place of the reply. It must
   * therefore keep nothing of the request before it throws.
   */
  onMeasured(measured: Measured, clock: RunClock): void;
  onStarted?(progress: SendProgress): void;
  /** Common start of several processes. Default: as soon as everything is ready. */
  startAtEpochMs?: number;
  /** Connections to the target that are already open; closed at the end. */
  pool?: ConnectionPool;
}

/** Live figures of a run. */
export interface SendProgress {
  /** Start of the clock, a time of `performance.now()`. */
  startAt: number;
  sent(): number;
  inFlight(): number;
  /** Captured requests that could not be sent. */
  skipped(): number;
}

export interface SendOutcome {
  clock: RunClock;
  startAt: number;
  /** Delay of the whole schedule because this process was not ready in time. */
  lateMs: number;
  sent: number;
  /** Captured requests that could not be sent. */
  skipped: number;
  /** Requests of the schedule that were not sent because the run was stopped, prepared or not. */
  unsent: number;
  /** Whether the replay was stopped before everything was sent and answered. */
  stopped: boolean;
  /** Reason why the rest of the schedule could not be sent after the start, such as expired credentials. */
  failure?: unknown;
  /** Number of requests that were sent but could not be recorded, and the first reason. */
  unrecorded?: { requests: number; why: unknown };
  /** Most simultaneous connections. */
  maxConnections: number;
}
