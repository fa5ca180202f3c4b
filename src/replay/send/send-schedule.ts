/**
 * Sends a schedule, from the captured lines to the last reply. It does not depend on result files, terminals or Lambda
 * functions: `onMeasured` receives the outcome of each request.
 */

import { RunClock } from '../clock.ts';
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
import { type PreparedRequest, Preparer } from '../request/preparer.ts';
import type { SendSchedule } from '../schedule/timing.ts';
import { unreadable } from '../source/peek.ts';
import { Dispatcher } from './dispatcher.ts';
import { Feeder } from './feeder.ts';
import type { SendJob, SendOutcome } from './job.ts';
import { SlicedQueue } from './slices.ts';
import { Warmer } from './warmer.ts';

/** Time between readiness and the first request, so that the first requests are not late. */
const START_MARGIN_MS = 2;
const WARMUP_CONCURRENCY = 8;
/** The error of a request that was in flight when the run ended early. */
const STOPPED = { code: 499, type: CANCELLED_TYPE, message: 'The replay was stopped' };

/** @throws PermanentError `TargetUnreachable` before the first request */
export async function sendSchedule(job: SendJob, signal?: AbortSignal): Promise<SendOutcome> {
  const clock = new RunClock();
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
  schedule: { entries, firstDueMs: 0, closedLoop: true },
  maxConcurrency: Math.min(job.maxConcurrency, WARMUP_CONCURRENCY),
  startAtEpochMs: undefined,
  onSkipped: () => {},
  onPrepared: undefined,
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
  readonly #ended: SlicedQueue<Completion>;
  #startAt = Number.POSITIVE_INFINITY;
  #lateMs = 0;
  #stopped = false;
  #unrecorded: SendOutcome['unrecorded'];

  constructor(job: SendJob, pool: ConnectionPool, clock: RunClock) {
    this.#job = job;
    this.#objectives = parseGoodput(job.options.goodput);
    this.#pool = pool;
    this.#clock = clock;
    this.#ended = new SlicedQueue<Completion>(
      (done) => this.#record(done),
      () => this.#dispatcher.tick(),
    );
    this.#dispatcher = new Dispatcher({
      pool,
      maxConcurrency: job.maxConcurrency,
      timeoutMs: job.options.timeout * 1000,
      goodForMs: job.target.goodForMs,
      onDone: (done) => this.#ended.push(done),
    });
    this.#warmer = new Warmer(pool, this.#dispatcher, job.maxConcurrency);
    this.#feeder = this.#feederOf(job);
  }

  #feederOf(job: SendJob): Feeder {
    const { schedule, maxConcurrency, reader } = job;
    const { firstDueMs } = schedule;
    const preparer = new Preparer({
      ...job,
      // A request whose preparation was abandoned is already counted as unsent.
      onSkipped: (line, pass) => {
        if (!this.#feeder.stopped) job.onSkipped(line, pass);
      },
    });
    return new Feeder({
      batches: schedule.entries,
      reader,
      prepare: async (scheduled) => {
        const request = await preparer.prepare(scheduled);
        return request && !this.#feeder.stopped ? announced(job, request) : undefined;
      },
      dispatcher: this.#dispatcher,
      maxConcurrency,
      firstDueMs,
      elapsedMs: () => (this.#startAt === Number.POSITIVE_INFINITY ? firstDueMs : this.#elapsedMs()),
      unrecorded: () => this.#ended.length,
    });
  }

  /** Time of the schedule that has passed since its start. */
  #elapsedMs(): number {
    return performance.now() - this.#startAt - this.#lateMs;
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
      this.#stopped = true;
      this.#feeder.stop();
      this.#feeder.unsent += this.#dispatcher.stop(STOPPED);
    };
    if (signal?.aborted) stop();
    else signal?.addEventListener('abort', stop, { once: true });
    try {
      const fed = this.#feeder.run();
      // An error is thrown where `fed` is awaited.
      fed.catch(() => {});
      await this.#feeder.ready;
      await this.#start();
      await this.#finish(fed);
    } finally {
      signal?.removeEventListener('abort', stop);
    }
    return {
      clock: this.#clock,
      startAt: this.#startAt,
      lateMs: this.#lateMs,
      sent: this.#dispatcher.sent,
      skipped: this.#feeder.skipped,
      unsent: this.#feeder.unsent,
      stopped: this.#stopped,
      failure: this.#feeder.failure,
      unrecorded: this.#unrecorded,
      maxConnections: this.#pool.maxOpen,
      warmFailures: this.#pool.warmFailures,
    };
  }

  /** Opens the first connections, then starts the clock. */
  async #start(): Promise<void> {
    const { schedule, startAtEpochMs, onStarted } = this.#job;
    const { firstDueMs } = schedule;
    const commonStart = startAtEpochMs === undefined ? undefined : this.#clock.at(startAtEpochMs);
    if (!this.#stopped) {
      await this.#warmer.beforeStart(
        firstDueMs,
        commonStart === undefined ? 0 : commonStart + firstDueMs - performance.now(),
        schedule.closedLoop ? this.#dispatcher.queue.length : undefined,
      );
    }
    this.#startAt = commonStart ?? performance.now() + START_MARGIN_MS;
    // A late process keeps the distances between its requests: sending all overdue requests together would be a burst
    // that was never captured.
    if (commonStart !== undefined) this.#lateMs = Math.max(0, performance.now() - (commonStart + firstDueMs));
    this.#warmer.start(() => this.#elapsedMs(), firstDueMs);
    this.#dispatcher.start(this.#startAt, this.#lateMs);
    onStarted?.({
      startAt: this.#startAt,
      sent: () => this.#dispatcher.sent,
      inFlight: () => this.#dispatcher.inFlight,
      skipped: () => this.#feeder.skipped,
    });
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
}

/** Announces a prepared request. If that fails, the request is skipped and the result is `undefined`. */
function announced(job: SendJob, request: PreparedRequest): PreparedRequest | undefined {
  try {
    job.onPrepared?.(request);
    return request;
  } catch (error) {
    const { reason, message } = unreadable(error);
    job.onSkipped({ file: request.file, line: request.line, reason, message }, request.pass);
    return undefined;
  }
}
