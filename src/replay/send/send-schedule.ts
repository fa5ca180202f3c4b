/**
 * Sends a schedule, from the captured lines to the last reply. It does not depend on result files, terminals or Lambda
 * functions: `onMeasured` receives the outcome of each request.
 */

import { type RunClock, runClock } from '../clock.ts';
import { ConnectionPool } from '../http/pool.ts';
import {
  CANCELLED_TYPE,
  type Completion,
  type Measured,
  measure,
  notRecorded,
  type Objectives,
} from '../measure/measure.ts';
import { parseGoodput } from '../options.ts';
import type { SendSchedule } from '../schedule/timing.ts';
import { Dispatcher } from './dispatcher.ts';
import { Feeder } from './feeder.ts';
import type { SendJob, SendOutcome } from './job.ts';
import { slicedQueue } from './slices.ts';
import { Warmer } from './warmer.ts';

/** Time between readiness and the first request, so that the first requests are not late. */
const START_MARGIN_MS = 2;
const WARMUP_CONCURRENCY = 8;
/** The error of a request that was in flight when the run ended early. */
const STOPPED = { code: 499, type: CANCELLED_TYPE, message: 'The replay was stopped' };

/**
 * Sends all requests of a job. Closes its reader and its connections.
 *
 * @param signal stops sending, and cancels the requests in flight
 * @throws PermanentError `TargetUnreachable` before the first request
 *
 * @example
 *     const { sent, unsent } = await sendSchedule({ ...job, schedule: scheduleFromIndex(index, options) });
 */
export async function sendSchedule(job: SendJob, signal?: AbortSignal): Promise<SendOutcome> {
  const clock = runClock();
  const pool = job.pool ?? new ConnectionPool(job.target.origin);
  const { warmup } = job.schedule;
  try {
    if (!job.pool) await pool.open();
    if (warmup) {
      const { failure } = await new Sender(warmupJob(job, warmup), pool, clock).run(signal);
      if (failure !== undefined) throw failure;
    }
    return await new Sender(job, pool, clock).run(signal);
  } finally {
    pool.close();
    await job.reader.close();
  }
}

/** Sends the first requests before the clock starts, to warm up the target. They are neither canceled nor counted. */
const warmupJob = (job: SendJob, entries: SendSchedule['entries']): SendJob => ({
  ...job,
  run: `${job.run}-warmup`,
  options: { ...job.options, requestCancellationRate: 0 },
  schedule: { ...job.schedule, entries, firstDueMs: 0, closedLoop: true },
  maxConcurrency: Math.min(job.maxConcurrency, WARMUP_CONCURRENCY),
  startAtEpochMs: undefined,
  onSkipped: () => {},
  onMeasured: () => {},
  onStarted: undefined,
});

class Sender {
  readonly #job: SendJob;
  readonly #objectives: Objectives;
  readonly #pool: ConnectionPool;
  readonly #clock: RunClock;
  readonly #dispatcher: Dispatcher;
  readonly #warmer: Warmer;
  readonly #feeder: Feeder;
  /** Requests that have ended and are not recorded yet. */
  readonly #ended: ReturnType<typeof slicedQueue<Completion>>;
  #unrecorded: SendOutcome['unrecorded'];

  constructor(job: SendJob, pool: ConnectionPool, clock: RunClock) {
    this.#job = job;
    this.#objectives = parseGoodput(job.options.goodput);
    this.#pool = pool;
    this.#clock = clock;
    this.#ended = slicedQueue(
      (done) => this.#record(done),
      () => this.#dispatcher.tick(),
    );
    this.#dispatcher = new Dispatcher(job, pool, (done) => this.#ended.push(done));
    this.#warmer = new Warmer(job, pool, this.#dispatcher);
    this.#feeder = new Feeder(job, this.#dispatcher, this.#ended.length);
  }

  #record(done: Completion): void {
    const { exchange } = done;
    try {
      const measured = this.#measured(done);
      if (!measured.error) this.#warmer.observe(exchange.endAt - exchange.startedAt);
    } catch (why) {
      this.#unrecorded = { why, ...this.#unrecorded, requests: (this.#unrecorded?.requests ?? 0) + 1 };
    }
    exchange.release();
  }

  /** Hands the measured request over. A reply that cannot be recorded affects its own record only. */
  #measured(done: Completion): Measured {
    let measured: Measured;
    try {
      measured = measure(done, this.#objectives);
      this.#job.onMeasured(measured, this.#clock);
    } catch (error) {
      measured = notRecorded(done, error);
      this.#job.onMeasured(measured, this.#clock);
    }
    return measured;
  }

  async run(signal: AbortSignal | undefined): Promise<SendOutcome> {
    const stop = (): void => {
      this.#feeder.stop();
      this.#dispatcher.stop(STOPPED);
    };
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
    try {
      const fed = this.#feeder.run();
      // An error is thrown where `fed` is awaited.
      fed.catch(() => {});
      await this.#feeder.ready;
      const started = await this.#start();
      await this.#finish(fed);
      return this.#outcome(started);
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  /** Opens the first connections, then starts the clock. */
  async #start(): Promise<Pick<SendOutcome, 'startAt' | 'lateMs'>> {
    const { schedule, startAtEpochMs, onStarted } = this.#job;
    const { firstDueMs } = schedule;
    const commonStart = startAtEpochMs === undefined ? undefined : this.#clock.at(startAtEpochMs);
    const untilFirstMs = commonStart === undefined ? 0 : commonStart + firstDueMs - performance.now();
    if (!this.#feeder.stopped) await this.#warmer.beforeStart(untilFirstMs);
    const startAt = commonStart ?? performance.now() + START_MARGIN_MS;
    // A late process keeps the distances between its requests: sending all overdue requests together would be a burst
    // that was never captured.
    const lateMs = commonStart === undefined ? 0 : Math.max(0, performance.now() - (commonStart + firstDueMs));
    this.#warmer.start();
    this.#dispatcher.start(startAt, lateMs);
    onStarted?.({
      startAt,
      sent: () => this.#dispatcher.sent,
      inFlight: () => this.#dispatcher.inFlight,
      skipped: () => this.#feeder.skipped,
    });
    return { startAt, lateMs };
  }

  /** Waits until every request has been sent and recorded. */
  async #finish(fed: Promise<void>): Promise<void> {
    try {
      await fed;
      await this.#dispatcher.drained();
      await this.#ended.drained();
    } catch (error) {
      this.#dispatcher.stop(STOPPED);
      throw error;
    } finally {
      this.#warmer.stop();
    }
  }

  #outcome(started: Pick<SendOutcome, 'startAt' | 'lateMs'>): SendOutcome {
    const { skipped, stopped, failure } = this.#feeder;
    const { sent } = this.#dispatcher;
    const isWhole = !stopped && failure === undefined;
    return {
      clock: this.#clock,
      ...started,
      ...{ sent, skipped, stopped, failure },
      unsent: isWhole ? 0 : this.#job.schedule.size(skipped) - sent - skipped,
      unrecorded: this.#unrecorded,
      maxConnections: this.#pool.maxOpen,
      warmFailures: this.#pool.warmFailures,
    };
  }
}
