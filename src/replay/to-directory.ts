/** A whole replay from options to files of results, for one process. */
import { toNamedError } from '../shared/errors.ts';
import type { RunClock } from './clock.ts';
import type { ConnectionPool } from './http/pool.ts';
import { neverSent } from './measure/error-rate.ts';
import type { Measured } from './measure/measure.ts';
import type { RunStats } from './measure/run-stats.ts';
import { parseGoodput, parseSetting, type ReplayOptions } from './options.ts';
import type { Overrides } from './request/literal.ts';
import { ResultSet, unreadOf } from './results/result-set.ts';
import { MAX_SLICES } from './results/time-slices.ts';
import type { ScheduleOptions, Timing } from './schedule/timing.ts';
import { type Progress, type ReplayOutcome, type ReplayPlan, runReplay } from './send-schedule.ts';
import { type IndexOptions, indexCaptures } from './source/index-captures.ts';
import type { SortedIndex } from './source/sorted-index.ts';
import type { OnSkipped, SkippedLine, SourceFile } from './source/types.ts';
import type { Target } from './targets/target.ts';

export const overridesOf = (options: ReplayOptions): Overrides => ({
  model: options.model,
  set: options.set.map(parseSetting),
  stream: options.stream,
});

export function timingOf(options: ReplayOptions): Timing {
  const { requestRate, concurrency } = options;
  if (requestRate !== undefined) return { kind: 'rate', perSecond: requestRate, arrivals: options.arrivalPattern };
  if (concurrency !== undefined) return { kind: 'concurrency' };
  return {
    kind: 'fixed',
    autoOffset: options.autoOffset,
    startOffsetMs: options.startOffsetMs,
    endOffsetMs: options.endOffsetMs,
    speedup: options.speedup,
    spread: options.spreadSameSecond,
  };
}

export const scheduleOf = (options: ReplayOptions): ScheduleOptions => ({
  timing: timingOf(options),
  repeat: options.repeat,
  count: options.requestCount,
  seed: options.randomSeed,
});

/** What the options say of every request that is sent, in the words of `runReplay`. */
export const sendingOf = (
  options: ReplayOptions,
): Pick<ReplayPlan, 'schedule' | 'overrides' | 'timeoutMs' | 'cancellation' | 'objectives'> => ({
  schedule: scheduleOf(options),
  overrides: overridesOf(options),
  timeoutMs: options.timeout * 1000,
  ...(options.cancellationRate > 0
    ? { cancellation: { percent: options.cancellationRate, afterMs: options.cancellationDelay * 1000 } }
    : {}),
  objectives: parseGoodput(options.goodput),
});

/** `--concurrency` beside `--request-rate` is a cap, as in AIPerf. */
export const maxConcurrencyOf = (options: ReplayOptions): number =>
  Math.min(options.maxConcurrency ?? Number.POSITIVE_INFINITY, options.concurrency ?? Number.POSITIVE_INFINITY);

export interface CaptureWindow {
  fromMs?: number;
  toMs?: number;
}

/** The index that the options need: a schedule needs every record's time. */
export const indexFor = (
  files: readonly SourceFile[],
  options: ReplayOptions,
  window: CaptureWindow,
  onSkipped: OnSkipped,
  more: Pick<IndexOptions, 'scan' | 'onRecord' | 'signal'> = {},
): Promise<SortedIndex> =>
  indexCaptures(files, { ...window, ...more, needsTime: timingOf(options).kind === 'fixed', onSkipped });

/** Steps of a minute that a slice may last. */
const SLICE_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
/** About so many slices make a readable trend. */
const SLICES = 60;

/**
 * Length of the schedule in seconds, at most.
 *
 * @param spanMs from the first captured record to the last one
 * @param records captured, for a rate
 */
export function scheduleSeconds(options: ReplayOptions, spanMs: number, records?: number): number {
  const { requestRate, requestCount = Number.POSITIVE_INFINITY, repeat, speedup } = options;
  const end = Math.min(spanMs, options.endOffsetMs ?? spanMs);
  const windowMs = Math.max(0, end - (options.startOffsetMs ?? 0));
  return requestRate === undefined || records === undefined
    ? (windowMs * repeat) / speedup / 1000
    : Math.min(requestCount, records * repeat) / requestRate;
}

/** Length of a time slice, by the expected length of the run. */
export function sliceMsOf(options: ReplayOptions, spanMs: number, records?: number): number {
  if (options.sliceDuration !== undefined) return options.sliceDuration * 1000;
  const seconds = scheduleSeconds(options, spanMs, records) / SLICES;
  return (SLICE_SECONDS.find((step) => step >= seconds) ?? Math.ceil(seconds / 3600) * 3600) * 1000;
}

export interface ReplayRequest {
  run: string;
  files: readonly SourceFile[];
  index: SortedIndex;
  target: Target;
  options: ReplayOptions;
  directory: string;
  inputs: boolean;
  raw: boolean;
  keepCaptured: boolean;
  traceIdOf?: (line: Buffer) => string;
  /** Lines that were skipped while the index was made. */
  skipped: readonly SkippedLine[];
  onStarted?(progress: Progress, stats: RunStats): void;
  /** Reads what became of a request, beside the results; what it returns keeps it. It may throw, which keeps nothing. */
  read?(measured: Measured, clock: RunClock): () => void;
  signal?: AbortSignal;
  /** Where the target has been reached before: see `ReplayPlan`. */
  pool?: ConnectionPool;
}

export interface ReplayResult {
  outcome: ReplayOutcome;
  results: ResultSet;
  startMs: number;
  endMs: number;
  wasCancelled: boolean;
  bottleneck: string | undefined;
  /** Why a part of the schedule was not sent, in words. */
  incomplete: string | undefined;
}

/** @throws PermanentError `TargetUnreachable`, `ResultsNotWritten` */
export async function replayToDirectory(request: ReplayRequest): Promise<ReplayResult> {
  const { run, files, index, target, options, directory } = request;
  const spanMs = index.total > 0 ? index.lastMs - index.firstMs : 0;
  const unwritable = new AbortController();
  const results = await ResultSet.create({
    directory,
    run,
    sliceMs: sliceMsOf(options, spanMs, index.total),
    maxSlices: MAX_SLICES,
    inputs: request.inputs,
    raw: request.raw,
    workerId: 'worker_0',
    // Requests whose results cannot be kept are not sent: the target has been loaded for nothing long enough.
    onError: (error) => unwritable.abort(error),
  });
  for (const line of request.skipped) results.skipped(line);
  const scheduled = timingOf(options).kind !== 'concurrency';
  const stopping = AbortSignal.any([unwritable.signal, ...(request.signal ? [request.signal] : [])]);
  const outcome = await runReplay(
    {
      run,
      files,
      index,
      target,
      ...sendingOf(options),
      maxConcurrency: maxConcurrencyOf(options),
      warmup: options.warmup,
      keepCaptured: request.keepCaptured,
      traceIdOf: request.traceIdOf,
      keepRaw: request.raw,
      endInOrder: true,
      ...(request.pool ? { pool: request.pool } : {}),
      // A line that cannot be sent is one, however often the captures are gone through.
      onSkipped: (line, pass = 0) => {
        if (pass === 0) results.skipped(line);
      },
      onPrepared: (prepared) => results.prepared(prepared),
      onStarted: (progress) => {
        results.started(progress.startAt);
        request.onStarted?.(progress, results.stats);
      },
      onMeasured: (measured, clock) => {
        const keep = request.read?.(measured, clock);
        results.measured(measured, clock);
        keep?.();
      },
    },
    stopping,
  ).catch(async (error: unknown) => {
    await results.discard();
    throw error;
  });
  const startMs = outcome.clock.epochMs(outcome.startAt);
  // A replay without requests ends before the moment at which its first would have gone.
  const endMs = Math.max(startMs, outcome.clock.epochMs(performance.now()));
  const bottleneck = scheduled ? clientBottleneck(results.stats) : undefined;
  const wasCancelled = outcome.stopped && !unwritable.signal.aborted;
  const incomplete = incompleteReason(outcome, results, unwritable.signal.reason);
  await results.finish(
    {
      scheduled,
      startMs,
      endMs,
      wasCancelled,
      isComplete: incomplete === undefined,
      incompleteReason: incomplete,
    },
    outcome.sent,
    {
      target: target.description,
      options,
      captures: {
        files: files.length,
        records: index.total,
        firstMs: finite(index.firstMs),
        lastMs: finite(index.lastMs),
      },
      start_ms: startMs,
      end_ms: endMs,
      sent: outcome.sent,
      unsent: outcome.unsent,
      was_cancelled: wasCancelled,
      incomplete: incomplete ?? null,
      client_bottleneck: bottleneck ?? null,
      connections: { max_open: outcome.maxConnections, failed_ahead: outcome.warmFailures },
    },
  );
  return { outcome, results, startMs, endMs, wasCancelled, bottleneck, incomplete };
}

/** @param unwritten why lines could not be written any more, where that has stopped it */
function incompleteReason(outcome: ReplayOutcome, results: ResultSet, unwritten: unknown): string | undefined {
  const { stopped, unsent, unrecorded, failure = unwritten } = outcome;
  const named = ({ name, message }: Error | ReturnType<typeof toNamedError>): string => `${name}: ${message}`;
  const unread = unreadOf(results.skippedReasons);
  const own = neverSent(results.stats);
  const reasons = [
    ...(failure === undefined
      ? []
      : [`${named(failure instanceof Error ? failure : toNamedError(failure))}; ${unsent} requests unsent`]),
    ...(stopped && failure === undefined ? [`stopped with ${unsent} requests unsent`] : []),
    ...(unread > 0 ? [`${unread} requests unsent because their captures could not be read any more`] : []),
    ...(own === undefined ? [] : [own]),
    ...(unrecorded
      ? [`${unrecorded.requests} requests sent and not recorded: ${named(toNamedError(unrecorded.why))}`]
      : []),
  ];
  return reasons.length > 0 ? reasons.join('; ') : undefined;
}

const finite = (value: number): number | null => (Number.isFinite(value) ? value : null);

/** The client's own delay may be this part of the median latency before it is said to distort what was measured. */
const BOTTLENECK_SHARE = 0.1;
/** Below this nobody would see it. */
const BOTTLENECK_MIN_MS = 10;

/**
 * Whether this process could not keep its schedule by itself, in words. Waiting for room under the concurrency cap does
 * not count: that is the target's slowness, and it shows in the latency from the scheduled moment.
 */
export function clientBottleneck(stats: RunStats): string | undefined {
  const own = neverSent(stats);
  if (own !== undefined) return own;
  const lag = stats.distributions.get('replay_client_lag');
  if (!lag || lag.count === 0) return undefined;
  const latency = stats.distributions.get('request_latency')?.percentile(50) ?? 0;
  const p99 = lag.percentile(99);
  const allowed = Math.max(BOTTLENECK_MIN_MS, BOTTLENECK_SHARE * latency);
  if (p99 <= allowed) return undefined;
  return `1% of the requests went out ${p99.toFixed(1)} ms or more after their moment because this client was busy; expected: at most ${allowed.toFixed(1)} ms`;
}
