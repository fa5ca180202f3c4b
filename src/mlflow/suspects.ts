/**
 * Tells a trace that MLflow cannot store from one that met a server that fails now and then. A 5xx, however often, is no
 * proof by itself: only a trace that fails again and again on a server that takes others between is at fault.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RetryPolicy } from '../shared/retry.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';

/**
 * A trace is at fault when it has failed in this many rounds in which the server took, at the first try, a trace that was
 * made for the purpose. A server that answers a share p of all requests with 500 shows this of a good trace, which has
 * failed three times before, in 3 of 10^9 cases at p = 0.5 and in 1 of 10^7 at p = 0.7, where it is worst.
 */
const PROOFS = 16;
/** More rounds decide nothing: the server is ill, and the chunk is for the state machine's retries. */
const MOST_ROUNDS = 32;
/** A round waits up to this many times `baseMs` before it: 0.5 s on average by default, 8 to 16 s for all of them. */
const LONGEST_WAIT_OF_BASE = 2;

export interface Suspect<T> {
  trace: T;
  /** What it last failed with. */
  error: MlflowRetryableError;
}

interface Trial<T> {
  retry: RetryPolicy;
  /** Writes a trace that is known to be good, once. */
  control(): Promise<void>;
  existing(traces: readonly T[]): Promise<ReadonlySet<string>>;
  send(trace: T): Promise<void>;
  /** Whether a failure may be the trace's fault. */
  mayBeTheContent(error: MlflowRetryableError): boolean;
}

interface Verdicts<T> {
  written: string[];
  guilty: Suspect<T>[];
  /** Refused (4xx) at last. */
  refused: { trace: T; error: MlflowRefusedError }[];
}

/**
 * Sends each suspect again, round by round, until it is taken or found guilty.
 *
 * @throws MlflowRetryableError when some are neither after all rounds, and what must stop the writing
 */
export async function trySuspects<T extends { traceId: string }>(
  suspects: readonly Suspect<T>[],
  trial: Trial<T>,
): Promise<Verdicts<T>> {
  const verdicts: Verdicts<T> = { written: [], guilty: [], refused: [] };
  let left = suspects.map((suspect) => ({ ...suspect, proofs: 0 }));
  for (let round = 0; round < MOST_ROUNDS && left.length > 0; round += 1) {
    await sleep(Math.random() * Math.min(trial.retry.capMs, trial.retry.baseMs * LONGEST_WAIT_OF_BASE));
    const isWell = await succeeds(() => trial.control());
    // Each has failed with an unknown outcome, so it may be there.
    const existing = await trial.existing(left.map(({ trace }) => trace));
    const open: typeof left = [];
    for (const suspect of left) {
      const { trace } = suspect;
      try {
        if (!existing.has(trace.traceId)) await trial.send(trace);
        verdicts.written.push(trace.traceId);
      } catch (error) {
        if (error instanceof MlflowRefusedError) {
          verdicts.refused.push({ trace, error });
          continue;
        }
        if (!(error instanceof MlflowRetryableError)) throw error;
        const proofs = suspect.proofs + (isWell && trial.mayBeTheContent(error) ? 1 : 0);
        if (proofs >= PROOFS) verdicts.guilty.push({ trace, error });
        else open.push({ trace, error, proofs });
      }
    }
    left = open;
  }
  const [undecided] = left;
  if (undecided) throw undecided.error;
  return verdicts;
}

/** Whether the server takes it at the first try; what it refuses for good is thrown. */
async function succeeds(work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof MlflowRetryableError) return false;
    throw error;
  }
}
