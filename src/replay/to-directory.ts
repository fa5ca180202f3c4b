/** Runs a whole replay in one process, from the index of the captures to the result files. */

import { saidBy } from '../core/errors/errors.ts';
import type { Experiment } from '../mlflow/types.ts';
import { maxConcurrencyOf } from './derived-options.ts';
import { capturesOf, type FinishedReplay, mlflowFactsOf, neverSent } from './finished.ts';
import type { RunStats } from './measure/run-stats.ts';
import type { Masking } from './request/keep.ts';
import { ResultSet, type ResultSetOptions, unreadOf } from './results/result-set.ts';
import { type Rest, restOf, scheduleFromIndex } from './schedule/timing.ts';
import type { SendJob, SendOutcome, SendProgress } from './send/job.ts';
import { sendSchedule } from './send/send-schedule.ts';
import { localReader } from './source/range-reader.ts';
import type { SortedIndex } from './source/sorted-index.ts';
import type { SkippedLine } from './source/types.ts';

export interface ReplayRequest
  extends Masking,
    Pick<SendJob, 'run' | 'files' | 'target' | 'options' | 'keepCaptured' | 'traceIdOf' | 'pool'>,
    Pick<ResultSetOptions, 'directory' | 'inputs' | 'read'> {
  /** Location of the captures, as the user gave it. */
  source: string;
  index: SortedIndex;
  /** The MLflow experiment of the replay, for `replay.json`. */
  mlflow?: { experiment: Experiment; url?: string };
  /** Lines that were skipped while the index was made. */
  skipped: readonly SkippedLine[];
  onStarted?(progress: SendProgress, stats: RunStats): void;
  signal?: AbortSignal;
}

export interface ReplayResult extends FinishedReplay {
  /** Reason why the rest of the schedule could not be sent. */
  failure?: unknown;
  rest?: Rest | undefined;
  /** Reason why result files are incomplete, such as a full disk. */
  unwritten?: unknown;
}

/**
 * Sends the requests of a replay, and writes the results to a directory.
 *
 * @throws PermanentError `TargetUnreachable`
 *
 * @example
 *     const { failure, rest } = await replayToDirectory({ ...request, target: urlTarget('http://127.0.0.1:8000'), options });
 */
export async function replayToDirectory(request: ReplayRequest): Promise<ReplayResult> {
  const { run, index, target, options, directory } = request;
  const results = new ResultSet({ directory, inputs: request.inputs, read: request.read, workerId: 'worker_0' });
  const { unwritable } = results;
  for (const line of request.skipped) results.skipped.add(line);
  // Requests whose results cannot be kept are not sent: they would load the target without any use.
  const stopping = AbortSignal.any([unwritable.signal, ...(request.signal ? [request.signal] : [])]);
  const outcome = await send(request, results, stopping).catch(async (error: unknown) => {
    await results.inputs?.discard();
    throw error;
  });
  const startMs = outcome.clock.epochMs(outcome.startAt);
  const incomplete = incompleteReason(outcome, results, unwritable.signal.reason);
  const finished = {
    ...outcome,
    run,
    target: target.description,
    options,
    source: request.source,
    captures: capturesOf(request.files, index),
    results,
    startMs,
    // A replay without requests ends before its first request would have been sent.
    endMs: Math.max(startMs, outcome.clock.epochMs(performance.now())),
    wasCancelled: outcome.stopped && !unwritable.signal.aborted,
    incomplete,
  };
  const mlflow = request.mlflow ? { mlflow: mlflowFactsOf(request.mlflow) } : {};
  const own = { incomplete: incomplete ?? null, ...mlflow };
  const unwritten: unknown = await results.finish(finished, own).catch((error: unknown) => error);
  const rest = outcome.unsent > 0 ? restOf(index, options, outcome) : undefined;
  return { ...finished, rest, unwritten };
}

function send(request: ReplayRequest, results: ResultSet, signal: AbortSignal): Promise<SendOutcome> {
  const { files, index, options } = request;
  return sendSchedule(
    {
      ...request,
      reader: localReader(files),
      schedule: scheduleFromIndex(index, options),
      maxConcurrency: maxConcurrencyOf(options),
      // A line that cannot be sent counts once, even if several passes over the captures read it.
      onSkipped: (line, pass = 0) => {
        if (pass === 0) results.skipped.add(line);
      },
      onStarted: (progress) => {
        results.startAt = progress.startAt;
        request.onStarted?.(progress, results.stats);
      },
      onMeasured: (measured, clock) => results.measured(measured, clock),
    },
    signal,
  );
}

/** @param unwritten why the result files could not be written, if that stopped the replay */
function incompleteReason(outcome: SendOutcome, results: ResultSet, unwritten: unknown): string | undefined {
  const { stopped, unsent, unrecorded, failure = unwritten } = outcome;
  const unread = unreadOf(Object.fromEntries(results.skippedReasons));
  const own = neverSent(results.stats);
  const reasons: string[] = [];
  if (failure !== undefined) {
    const why = failure instanceof Error ? `${failure.name}: ${failure.message}` : saidBy(failure);
    reasons.push(`${why}; ${unsent} requests unsent`);
  } else if (stopped) reasons.push(`stopped with ${unsent} requests unsent`);
  if (unread > 0) reasons.push(`${unread} requests unsent because their captures could no longer be read`);
  if (own !== undefined) reasons.push(own);
  if (unrecorded) {
    reasons.push(`${unrecorded.requests} requests sent but not recorded: ${saidBy(unrecorded.why)}`);
  }
  return reasons.length > 0 ? reasons.join('; ') : undefined;
}

/** Explains why a part was not sent. Returns `undefined` if everything was sent or the user stopped the replay. */
export function unsentWarning({ incomplete, wasCancelled, failure }: ReplayResult): string | undefined {
  if (incomplete === undefined || (wasCancelled && failure === undefined)) return undefined;
  return `A part of the schedule was not sent: ${incomplete}.`;
}
