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
import { connectionWarmer, type Warmer } from './warmer.ts';

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
      const { failure } = await send(warmupJob(job, warmup), pool, clock, signal);
      if (failure !== undefined) throw failure;
    }
    return await send(job, pool, clock, signal);
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

async function send(job: SendJob, pool: ConnectionPool, clock: RunClock, signal?: AbortSignal): Promise<SendOutcome> {
  const objectives = parseGoodput(job.options.goodput);
  let unrecorded: SendOutcome['unrecorded'];
  const record = (done: Completion): void => {
    const { exchange } = done;
    try {
      const measured = handedOver(done, job, objectives, clock);
      if (!measured.error) warmer.observe(exchange.endAt - exchange.startedAt);
    } catch (why) {
      unrecorded = { why, ...unrecorded, requests: (unrecorded?.requests ?? 0) + 1 };
    }
    exchange.release();
  };
  /** Requests that have ended and are not recorded yet. */
  const ended = slicedQueue(record, () => dispatcher.tick());
  const dispatcher = new Dispatcher(job, pool, ended.push);
  const warmer = connectionWarmer(job, pool, dispatcher);
  const feeder = new Feeder(job, dispatcher, ended.length);
  const stop = (): void => {
    feeder.stop();
    dispatcher.stop(STOPPED);
  };
  if (signal?.aborted) stop();
  else signal?.addEventListener('abort', stop, { once: true });
  try {
    const fed = feeder.run();
    await Promise.race([fed, feeder.ready]);
    const started = await startClock(job, clock, { feeder, warmer, dispatcher });
    await fed;
    await dispatcher.drained();
    await ended.drained();
    const { skipped, stopped, failure } = feeder;
    const { sent } = dispatcher;
    const isWhole = !stopped && failure === undefined;
    const unsent = isWhole ? 0 : job.schedule.size(skipped) - sent - skipped;
    return { clock, ...started, sent, skipped, stopped, failure, unsent, unrecorded, maxConnections: pool.maxOpen };
  } catch (error) {
    dispatcher.stop(STOPPED);
    throw error;
  } finally {
    warmer.stop();
    signal?.removeEventListener('abort', stop);
  }
}

/** Hands the measured request over. A reply that cannot be recorded affects its own record only. */
function handedOver(done: Completion, job: SendJob, objectives: Objectives, clock: RunClock): Measured {
  let measured: Measured;
  try {
    measured = measure(done, objectives);
    job.onMeasured(measured, clock);
  } catch (error) {
    measured = notRecorded(done, error);
    job.onMeasured(measured, clock);
  }
  return measured;
}

/** Opens the first connections, then starts the clock. */
async function startClock(
  { schedule: { firstDueMs }, startAtEpochMs, onStarted }: SendJob,
  clock: RunClock,
  { feeder, warmer, dispatcher }: { feeder: Feeder; warmer: Warmer; dispatcher: Dispatcher },
): Promise<Pick<SendOutcome, 'startAt' | 'lateMs'>> {
  const commonStart = startAtEpochMs === undefined ? undefined : clock.at(startAtEpochMs);
  const untilFirstMs = commonStart === undefined ? 0 : commonStart + firstDueMs - performance.now();
  if (!feeder.stopped) await warmer.beforeStart(untilFirstMs);
  const startAt = commonStart ?? performance.now() + START_MARGIN_MS;
  // A late process keeps the distances between its requests: sending all overdue requests together would be a burst
  // that was never captured.
  const lateMs = commonStart === undefined ? 0 : Math.max(0, performance.now() - (commonStart + firstDueMs));
  warmer.start();
  dispatcher.start(startAt, lateMs);
  onStarted?.({
    startAt,
    sent: () => dispatcher.sent,
    inFlight: () => dispatcher.inFlight,
    skipped: () => feeder.skipped,
  });
  return { startAt, lateMs };
}
