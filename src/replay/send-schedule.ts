/**
 * One replay, from the sorted captures to the last reply. It knows nothing of files of results, of terminals or of
 * Lambdas: what happened to each request is handed to `onMeasured`.
 */

import { Random } from '../shared/random.ts';
import { RunClock } from './clock.ts';
import { ConnectionPool, type Resolve } from './http/pool.ts';
import { CANCELLED_TYPE, type Measured, measure, notRecorded, type Objectives } from './measure/measure.ts';
import { type Overrides, unreadable } from './request/literal.ts';
import type { PreparedRequest } from './request/prepared.ts';
import { Preparer } from './request/preparer.ts';
import { type EntrySource, type ScheduledEntry, type ScheduleOptions, schedule } from './schedule/timing.ts';
import { type Completion, Dispatcher } from './send/dispatcher.ts';
import { Feeder } from './send/feeder.ts';
import { Renewer } from './send/renewer.ts';
import { SlicedQueue } from './send/slices.ts';
import { Warmer } from './send/warmer.ts';
import { RecordReader } from './source/record-reader.ts';
import type { LineReader, OnSkipped, SourceFile } from './source/types.ts';
import type { Target } from './targets/target.ts';

export interface ReplayPlan {
  run: string;
  files: readonly SourceFile[];
  index: EntrySource;
  target: Target;
  schedule: ScheduleOptions;
  overrides: Overrides;
  /** Requests under way at most: the number kept under way where the timing is a concurrency, else a cap. */
  maxConcurrency: number;
  timeoutMs: number;
  /** Requests sent before the clock starts, and not counted. */
  warmup: number;
  cancellation?: { percent: number; afterMs: number };
  objectives: Objectives;
  keepCaptured: boolean;
  /** MLflow's id of a captured line's trace, where replays are to be linked to it. */
  traceIdOf?: (line: Buffer) => string;
  /** Keep the events of streams as they came. */
  keepRaw?: boolean;
  onSkipped: OnSkipped;
  /**
   * Called as each request comes to its end. Where it throws it is called again, with an error in place of the reply: it
   * must have kept nothing of the request by then.
   */
  onMeasured(measured: Measured, clock: RunClock): void;
  /** Called as each request is prepared, in the order of the schedule. Where it throws the request is skipped. */
  onPrepared?(request: PreparedRequest): void;
  onStarted?(progress: Progress): void;
  /**
   * A failure after the start (credentials that ran out, a capture file that went away) ends the run in order and is in
   * its outcome; without this it is thrown.
   */
  endInOrder?: boolean;
  /** Common start for several processes; default: as soon as all is ready. */
  startAtEpochMs?: number;
  /** A part of a schedule that was made beforehand, instead of the one made of `index` and `schedule`. */
  part?: SchedulePart;
  resolve?: Resolve;
  /** Connections to the target, opened already, and closed at the end. */
  pool?: ConnectionPool;
}

/** What one of several processes sends of a schedule that they share. */
export interface SchedulePart {
  /** In the order of their time. */
  entries(): AsyncIterable<ScheduledEntry[]>;
  /** Sent before the clock starts. */
  warmup(): AsyncIterable<ScheduledEntry[]>;
  /** When the first of the entries is due. */
  firstDueMs: number;
  reader: LineReader;
}

/** Live figures of a run. */
export interface Progress {
  clock: RunClock;
  /** Start of the clock, a time of `performance.now()`. */
  startAt: number;
  sent(): number;
  inFlight(): number;
  waiting(): number;
  /** Records that turned out to be none that can be sent. */
  skipped(): number;
}

export interface ReplayOutcome {
  clock: RunClock;
  startAt: number;
  /** How much later than scheduled all requests went because this process was not ready in time. */
  lateMs: number;
  sent: number;
  /** Prepared or not, requests of the schedule that were not sent because the run was stopped. */
  unsent: number;
  stopped: boolean;
  /** Why the rest of the schedule could not be sent. */
  failure?: unknown;
  /** Requests that were sent and of which nothing could be recorded, and why it was so for the first. */
  unrecorded?: { requests: number; why: unknown };
  maxConnections: number;
  warmFailures: number;
}

/** Between readiness and the first request, so that the first ones are not late. */
const START_MARGIN_MS = 2;
const WARMUP_CONCURRENCY = 8;
/** What becomes of requests that are under way when the run is stopped. */
const STOPPED = { code: 499, type: CANCELLED_TYPE, message: 'The replay was stopped' };

/** @throws PermanentError `TargetUnreachable` before anything is sent */
export async function runReplay(plan: ReplayPlan, signal?: AbortSignal): Promise<ReplayOutcome> {
  const clock = new RunClock();
  const reader = plan.part?.reader ?? new RecordReader(plan.files);
  const pool = plan.pool ?? new ConnectionPool(plan.target.origin, plan.resolve);
  try {
    if (!plan.pool) await pool.open();
    if (plan.warmup > 0) await warmUp(plan, pool, clock, reader, signal);
    return await replay(plan, pool, clock, reader, signal);
  } finally {
    pool.close();
    await reader.close();
  }
}

async function replay(
  plan: ReplayPlan,
  pool: ConnectionPool,
  clock: RunClock,
  reader: LineReader,
  signal: AbortSignal | undefined,
): Promise<ReplayOutcome> {
  let startAt = Number.POSITIVE_INFINITY;
  const recorder = new Recorder(plan, clock);
  const finished = new SlicedQueue<Completion>(
    (done) => {
      const { exchange } = done;
      const measured = recorder.record(done);
      if (measured && !measured.error) warmer.observe(exchange.endAt - exchange.startedAt);
      exchange.release();
    },
    () => dispatcher.tick(),
  );
  const dispatcher = new Dispatcher({
    pool,
    maxConcurrency: plan.maxConcurrency,
    timeoutMs: plan.timeoutMs,
    keepRaw: plan.keepRaw,
    onDone: (done) => finished.push(done),
  });
  const warmer = new Warmer(pool, dispatcher, plan.maxConcurrency);
  const firstDueMs = plan.part?.firstDueMs ?? 0;
  let lateMs = 0;
  /** Where in the schedule the run is. */
  const elapsed = (): number => performance.now() - startAt - lateMs;
  const preparer = new Preparer({
    ...plan,
    reader,
    random: new Random(plan.schedule.seed),
    // One that was given up has been counted as unsent.
    onSkipped: (line, pass) => {
      if (!feeding.stopped) plan.onSkipped(line, pass);
    },
  });
  const feeding = new Feeder({
    batches: (taker) => (plan.part ? plan.part.entries() : schedule(plan.index, plan.schedule, taker)),
    prepare: async (scheduled) => {
      const request = await preparer.prepare(scheduled, 'profiling');
      return request && !feeding.stopped ? announced(plan, request) : undefined;
    },
    dispatcher,
    maxConcurrency: plan.maxConcurrency,
    firstDueMs,
    elapsedMs: () => (startAt === Number.POSITIVE_INFINITY ? firstDueMs : elapsed()),
    endInOrder: plan.endInOrder,
  });
  let stopped = false;
  const stop = (): void => {
    stopped = true;
    feeding.stop();
    feeding.unsent += dispatcher.stop(STOPPED);
  };
  if (signal?.aborted) stop();
  else signal?.addEventListener('abort', stop, { once: true });

  const fed = feeding.run();
  // What goes wrong while feeding is thrown where it is awaited below.
  fed.catch(() => {});
  await feeding.ready.catch((error: unknown) => {
    signal?.removeEventListener('abort', stop);
    throw error;
  });
  const closedLoop = plan.schedule.timing.kind === 'concurrency';
  const commonStart = plan.startAtEpochMs === undefined ? undefined : clock.at(plan.startAtEpochMs);
  if (!stopped) {
    await warmer.beforeStart(
      firstDueMs,
      commonStart === undefined ? 0 : commonStart + firstDueMs - clock.now(),
      closedLoop ? dispatcher.queue.length : undefined,
    );
  }

  startAt = commonStart ?? clock.now() + START_MARGIN_MS;
  // One that is late begins late and keeps the distances of its requests: sent all together, the overdue ones would be a
  // burst that nobody captured.
  if (plan.startAtEpochMs !== undefined) lateMs = Math.max(0, clock.now() - (startAt + firstDueMs));
  warmer.start(elapsed, firstDueMs);
  const renewer = new Renewer(dispatcher.queue, plan.target.goodForMs);
  renewer.start();
  dispatcher.start(startAt, lateMs);
  plan.onStarted?.({
    clock,
    startAt,
    sent: () => dispatcher.sent,
    inFlight: () => dispatcher.inFlight,
    waiting: () => dispatcher.queue.length,
    skipped: () => feeding.skipped,
  });
  try {
    await fed;
    dispatcher.close();
    await dispatcher.drained();
    await finished.drained();
  } catch (error) {
    dispatcher.stop({ code: 499, type: CANCELLED_TYPE, message: 'The replay failed' });
    throw error;
  } finally {
    warmer.stop();
    renewer.stop();
    signal?.removeEventListener('abort', stop);
  }
  return {
    clock,
    startAt,
    lateMs,
    sent: dispatcher.sent,
    unsent: feeding.unsent,
    stopped,
    failure: feeding.failure,
    ...(recorder.unrecorded ? { unrecorded: recorder.unrecorded } : {}),
    maxConnections: pool.maxOpen,
    warmFailures: pool.warmFailures,
  };
}

/** Hands over what became of each request. Nothing that one reply does to its own record is done to those of others. */
class Recorder {
  readonly #plan: ReplayPlan;
  readonly #clock: RunClock;
  unrecorded: ReplayOutcome['unrecorded'];

  constructor(plan: ReplayPlan, clock: RunClock) {
    this.#plan = plan;
    this.#clock = clock;
  }

  /** @returns `undefined` where nothing could be recorded */
  record({ request, exchange, scheduledAt, roomAt }: Completion): Measured | undefined {
    const { objectives } = this.#plan;
    try {
      return this.#handOver(measure(request, exchange, scheduledAt, roomAt, objectives));
    } catch (error) {
      try {
        return this.#handOver(notRecorded(request, exchange, scheduledAt, roomAt, error));
      } catch (why) {
        this.unrecorded = { why, ...this.unrecorded, requests: (this.unrecorded?.requests ?? 0) + 1 };
        return undefined;
      }
    }
  }

  #handOver(measured: Measured): Measured {
    this.#plan.onMeasured(measured, this.#clock);
    return measured;
  }
}

/** A request that has been announced; `undefined` for one of which that could not be done. */
function announced(plan: ReplayPlan, request: PreparedRequest): PreparedRequest | undefined {
  try {
    plan.onPrepared?.(request);
    return request;
  } catch (error) {
    const { reason, message } = unreadable(error);
    plan.onSkipped({ file: request.file, line: request.line, reason, message }, request.pass);
    return undefined;
  }
}

/** Sends the first requests ahead of the clock, so that the target is warm; their results are not counted. */
async function warmUp(
  plan: ReplayPlan,
  pool: ConnectionPool,
  clock: RunClock,
  reader: LineReader,
  signal: AbortSignal | undefined,
): Promise<void> {
  const preparer = new Preparer({
    ...plan,
    run: `${plan.run}-warmup`,
    reader,
    random: new Random(plan.schedule.seed),
    onSkipped: () => {},
  });
  const recorder = new Recorder(plan, clock);
  const dispatcher = new Dispatcher({
    pool,
    maxConcurrency: Math.min(plan.maxConcurrency, WARMUP_CONCURRENCY),
    timeoutMs: plan.timeoutMs,
    onDone: (done) => {
      recorder.record(done);
      done.exchange.release();
    },
  });
  const first: ScheduleOptions = { ...plan.schedule, timing: { kind: 'concurrency' }, count: plan.warmup };
  const feeding = new Feeder({
    batches: (taker) => (plan.part ? plan.part.warmup() : schedule(plan.index, first, taker)),
    prepare: (scheduled) => preparer.prepare(scheduled, 'warmup'),
    dispatcher,
    maxConcurrency: WARMUP_CONCURRENCY,
    firstDueMs: 0,
    elapsedMs: () => 0,
  });
  const stop = (): void => {
    feeding.stop();
    dispatcher.stop(STOPPED);
  };
  if (signal?.aborted) stop();
  else signal?.addEventListener('abort', stop, { once: true });
  const renewer = new Renewer(dispatcher.queue, plan.target.goodForMs);
  renewer.start();
  dispatcher.start(performance.now());
  try {
    await feeding.run();
    dispatcher.close();
    await dispatcher.drained();
  } catch (error) {
    stop();
    throw error;
  } finally {
    renewer.stop();
    signal?.removeEventListener('abort', stop);
  }
}
