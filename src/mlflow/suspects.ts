/**
 * Distinguishes a trace that MLflow cannot store from one that met a server with intermittent failures. Repeated 5xx alone
 * prove nothing. A trace is at fault if it fails again and again while the server accepts other traces in between.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RetryPolicy } from '../core/process/retry.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';

/**
 * A trace is at fault after failing in this many rounds in which the server accepted a control trace at the first attempt.
 * If a server returns 500 for a share p of all requests, a good trace that has already failed three times is wrongly found
 * guilty in 3 of 10^9 cases at p = 0.5, and in 1 of 10^7 at p = 0.7, the worst case.
 */
const PROOFS = 16;
/** Without a decision after this many rounds, the server is unhealthy and the state machine retries the chunk. */
const MAX_ROUNDS = 32;
/** The longest wait before a round, as a multiple of `baseMs`: 0.5 s on average by default, 8 to 16 s in all rounds. */
const MAX_WAIT_FACTOR = 2;

export interface Suspect<T> {
  trace: T;
  /** The latest failure. */
  error: MlflowRetryableError;
}

interface Trial<T> {
  retry: RetryPolicy;
  /** Writes a control trace, once. */
  control(): Promise<void>;
  /** Returns the outcome of those traces that exist; see `Delivery`. */
  existing(traces: readonly T[]): Promise<ReadonlyMap<string, 'written' | 'alreadyThere'>>;
  /** Sends a trace, unless it exists by now. Returns its outcome. */
  send(trace: T): Promise<'written' | 'alreadyThere'>;
  /** Whether a failure may be the trace's fault. */
  mayBeTheContent(error: MlflowRetryableError): boolean;
}

interface Verdicts<T> {
  written: string[];
  alreadyThere: string[];
  guilty: Suspect<T>[];
  /** Traces that were finally refused with a 4xx status. */
  refused: { trace: T; error: MlflowRefusedError }[];
}

/**
 * Sends the suspects in rounds, until each is accepted or found guilty.
 *
 * @throws MlflowRetryableError if suspects remain after all rounds; and failures that must stop the writing
 */
export async function trySuspects<T extends { traceId: string }>(
  suspects: readonly Suspect<T>[],
  trial: Trial<T>,
): Promise<Verdicts<T>> {
  const verdicts: Verdicts<T> = { written: [], alreadyThere: [], guilty: [], refused: [] };
  let open = suspects.map((suspect) => ({ ...suspect, proofs: 0 }));
  for (let round = 0; round < MAX_ROUNDS && open.length > 0; round += 1) {
    await sleep(Math.random() * Math.min(trial.retry.capMs, trial.retry.baseMs * MAX_WAIT_FACTOR));
    const isHealthy = await succeeds(() => trial.control());
    // Each suspect has failed with an unknown outcome, so it may exist.
    const existing = await trial.existing(open.map(({ trace }) => trace));
    const undecided: typeof open = [];
    for (const suspect of open) {
      const { trace } = suspect;
      try {
        const outcome = existing.get(trace.traceId) ?? (await trial.send(trace));
        verdicts[outcome].push(trace.traceId);
      } catch (error) {
        if (error instanceof MlflowRefusedError) {
          verdicts.refused.push({ trace, error });
          continue;
        }
        if (!(error instanceof MlflowRetryableError)) throw error;
        const proofs = suspect.proofs + (isHealthy && trial.mayBeTheContent(error) ? 1 : 0);
        if (proofs >= PROOFS) verdicts.guilty.push({ trace, error });
        else undecided.push({ trace, error, proofs });
      }
    }
    open = undecided;
  }
  if (open[0]) throw open[0].error;
  return verdicts;
}

/** Whether a call succeeds at the first attempt. @throws failures that a retry would repeat */
async function succeeds(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof MlflowRetryableError) return false;
    throw error;
  }
}
