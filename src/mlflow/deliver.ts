/** Delivers traces without loss or duplicates: reads after an unknown outcome, and finds refused traces by halving. */
import { setTimeout as sleep } from 'node:timers/promises';
import { PermanentError, wordsIn } from '../core/errors/errors.ts';
import { type RetryPolicy, waitAfter, withRetries } from '../core/process/retry.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import type { WriteTracesResult } from './types.ts';

/** If a batch makes the server fail (500) or breaks the connection, it is sent this many times before it is halved. */
const SENDS_BEFORE_HALVING = 3;

/**
 * After this many single traces in a row on which the server failed, it must accept a control trace. This limits the cost
 * of halving in an outage: about 20 batches of 3 sends, or 15 s.
 */
const CONTROL_AFTER_FAILURES = 10;

/**
 * If this many traces are refused and none is accepted, the cause may lie between the client and the server. The chunk
 * fails unless the server accepts a control trace. Fewer refusals need no check.
 */
const CONTROL_AFTER_REFUSALS = 20;

/** Whether an existing trace was written by this client with its assessments, or by another client; by trace id. */
type Existing = ReadonlyMap<string, 'written' | 'alreadyThere'>;

export interface Delivery<T extends { traceId: string }> {
  retry: RetryPolicy;
  /** Work on traces that were absent when it began, before the last check: it may take long. */
  before?(batch: readonly T[]): Promise<void>;
  /** Does the work, which is the last check and `send`, when that may make a request at once. */
  limited<R>(work: () => Promise<R>): Promise<R>;
  /** Writes the whole batch, or fails without writing a trace. */
  send(batch: readonly T[]): Promise<void>;
  /** Writes a control trace, once. */
  control(): Promise<void>;
  /**
   * Returns the outcome of the existing traces. `sent`: this delivery may have written them, so they are read again;
   * otherwise a recent read suffices.
   */
  existing(traces: readonly T[], sent: boolean): Promise<Existing>;
  /** Throws if the refusal does not concern the traces, for example because the experiment is deleted. */
  checkRefusal(error: MlflowRefusedError): Promise<void>;
  /** Called with a batch that was refused as too large. */
  tooLarge?(batch: readonly T[]): void;
}

/** Delivers batches and collects the outcome of every trace. */
export class Deliveries<T extends { traceId: string }> {
  readonly #delivery: Delivery<T>;
  readonly #result: Omit<WriteTracesResult, 'bare'> = { written: [], alreadyThere: [], refused: [] };
  /** Single traces on which the server failed more than once. */
  readonly #suspects: Suspect<T>[] = [];
  #failedInARow = 0;
  #firstRefusal: string | undefined;

  constructor(delivery: Delivery<T>) {
    this.#delivery = delivery;
  }

  /**
   * Delivers a batch.
   *
   * @throws failures that must stop the writing: an outage, denied access, a deleted experiment, a missing route
   */
  async deliver(batch: readonly T[]): Promise<void> {
    const open = { batch };
    let unknown = false;
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#send(open, unknown);
        this.#failedInARow = 0;
        return;
      } catch (error) {
        if (error instanceof MlflowRefusedError) return this.#refused(open.batch, error);
        if (!(error instanceof MlflowRetryableError)) throw error;
        unknown ||= error.outcome === 'unknown';
        if (attempt >= SENDS_BEFORE_HALVING && mayBeTheContent(error)) return this.#failed(open.batch, error);
        const wait = waitAfter(this.#delivery.retry, attempt, error.retryAfterMs);
        if (wait === undefined) throw error;
        // The server may still process a timed-out request. The longest wait lets it finish before the next read.
        await sleep(error.mayBeInProgress ? Math.max(wait, this.#delivery.retry.capMs) : wait);
      }
    }
  }

  /**
   * Sends the absent traces of a batch once.
   *
   * @param open traces that turn out to exist are removed from its batch
   * @param unknown whether an earlier attempt may have written them
   */
  async #send(open: { batch: readonly T[] }, unknown: boolean): Promise<void> {
    const { before, limited, send } = this.#delivery;
    const check = async (sent: boolean): Promise<boolean> => {
      open.batch = await this.#absent(open.batch, sent);
      return open.batch.length > 0;
    };
    if (before && (await check(unknown))) await before(open.batch);
    if (open.batch.length === 0) return;
    await limited(async () => {
      if (await check(unknown && !before)) await send(open.batch);
    });
    this.#result.written.push(...open.batch.map(({ traceId }) => traceId));
  }

  /**
   * Determines which suspects are at fault, and returns the outcome of all traces. Call it after the last delivery.
   *
   * @throws MlflowRetryableError if that is undecidable, because the server fails on other traces as well
   */
  async result(): Promise<Omit<WriteTracesResult, 'bare'>> {
    const { written, alreadyThere, refused } = this.#result;
    if (this.#suspects.length > 0) await this.#trySuspects();
    const accepted = written.length + alreadyThere.length;
    if (accepted === 0 && refused.length >= CONTROL_AFTER_REFUSALS && !(await this.#acceptsControl())) {
      throw new PermanentError('MlflowRefusesAll', 'MLflow refused every trace', {
        got: `${refused.length} traces refused; the first: ${this.#firstRefusal ?? refused[0]?.reason.name}`,
        expected: 'the server accepts some of them',
      });
    }
    return this.#result;
  }

  /** Whether the server accepts a control trace. */
  async #acceptsControl(): Promise<boolean> {
    try {
      await withRetries(this.#delivery.retry, () => this.#delivery.control());
      return true;
    } catch (error) {
      if (error instanceof MlflowRefusedError) return false;
      throw error;
    }
  }

  /**
   * Distinguishes a trace that MLflow cannot store from a trace that met intermittent failures of the server. Repeated
   * 5xx alone are no proof. So the suspects are sent in rounds, until each is accepted or found faulty: it fails again
   * and again while the server accepts other traces in between.
   *
   * @throws MlflowRetryableError if suspects remain after all rounds; and failures that must stop the writing
   */
  async #trySuspects(): Promise<void> {
    const { retry, control } = this.#delivery;
    let open = this.#suspects.map((suspect) => ({ ...suspect, proofs: 0 }));
    for (let round = 0; round < MAX_ROUNDS && open.length > 0; round += 1) {
      await sleep(Math.random() * Math.min(retry.capMs, retry.baseMs * MAX_WAIT_FACTOR));
      const isHealthy = await succeeds(control);
      const undecided: typeof open = [];
      for (const suspect of open) {
        const { trace } = suspect;
        try {
          // It has failed with an unknown outcome, so it may exist.
          await this.#send({ batch: [trace] }, true);
        } catch (error) {
          if (error instanceof MlflowRefusedError) {
            await this.#refused([trace], error);
            continue;
          }
          if (!(error instanceof MlflowRetryableError)) throw error;
          const proofs = suspect.proofs + (isHealthy && mayBeTheContent(error) ? 1 : 0);
          if (proofs >= PROOFS) this.#refuse(trace, 'MlflowFailsOnTrace', error);
          else undecided.push({ trace, error, proofs });
        }
      }
      open = undecided;
    }
    if (open[0]) throw open[0].error;
  }

  /** Settles the traces that exist, and returns the others. */
  async #absent(batch: readonly T[], sent: boolean): Promise<readonly T[]> {
    const existing = await this.#delivery.existing(batch, sent);
    for (const [traceId, outcome] of existing) this.#result[outcome].push(traceId);
    return batch.filter(({ traceId }) => !existing.has(traceId));
  }

  async #refused(batch: readonly T[], error: MlflowRefusedError): Promise<void> {
    if (error.routeMissing) throw error;
    if (error.status === 413) this.#delivery.tooLarge?.(batch);
    else await this.#delivery.checkRefusal(error);
    const [only, ...others] = batch;
    if (only === undefined) return;
    if (others.length > 0) return this.#halves(batch);
    // MLflow may refuse a trace because another run has just written it.
    const existing = await this.#delivery.existing([only], true);
    if (existing.has(only.traceId)) this.#result.alreadyThere.push(only.traceId);
    else {
      this.#firstRefusal ??= error.message;
      this.#refuse(only, error.name, error);
    }
  }

  #refuse({ traceId }: T, name: string, error: Error): void {
    const [words] = wordsIn(error);
    const reason = { name, message: error.message, ...(words === undefined ? {} : { words }) };
    this.#result.refused.push({ traceId, reason });
  }

  async #failed(batch: readonly T[], error: MlflowRetryableError): Promise<void> {
    const absent = error.outcome === 'unknown' ? await this.#absent(batch, true) : batch;
    const [only, ...others] = absent;
    if (others.length > 0) return this.#halves(absent);
    if (only === undefined) return;
    this.#suspects.push({ trace: only, error });
    this.#failedInARow += 1;
    if (this.#failedInARow < CONTROL_AFTER_FAILURES) return;
    this.#failedInARow = 0;
    await withRetries({ ...this.#delivery.retry, attempts: SENDS_BEFORE_HALVING }, () => this.#delivery.control());
  }

  async #halves(batch: readonly T[]): Promise<void> {
    const middle = Math.ceil(batch.length / 2);
    await this.deliver(batch.slice(0, middle));
    await this.deliver(batch.slice(middle));
  }
}

/**
 * Whether one trace may be at fault: MLflow returns 500 for text that its database driver cannot encode, and gateways
 * break the connection if a body is too large. Other failures are the server's.
 */
const mayBeTheContent = (error: MlflowRetryableError): boolean => error.status === 500 || error.whileSending;

/**
 * A trace is at fault after failing in this many rounds in which the server accepted a control trace at the first attempt.
 * If a server returns 500 for a share p of all requests, a good trace that has already failed three times is wrongly found
 * faulty in 3 of 10^9 cases at p = 0.5, and in 1 of 10^7 at p = 0.7, the worst case.
 */
const PROOFS = 16;
/** Without a decision after this many rounds, the server is unhealthy and the state machine retries the chunk. */
const MAX_ROUNDS = 32;
/** The longest wait before a round, as a multiple of `baseMs`: 0.5 s on average by default, 8 to 16 s in all rounds. */
const MAX_WAIT_FACTOR = 2;

interface Suspect<T> {
  trace: T;
  /** The latest failure. */
  error: MlflowRetryableError;
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
