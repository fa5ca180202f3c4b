/** Writes so that nothing is lost and nothing doubled: reads again after an unknown outcome, and finds what is refused by halving. */
import { setTimeout as sleep } from 'node:timers/promises';
import { PermanentError } from '../shared/errors.ts';
import { type RetryPolicy, waitAfter, withRetries } from '../shared/retry.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import { type Suspect, trySuspects } from './suspects.ts';
import type { WriteTracesResult } from './types.ts';

/** A batch that the server fails on (500), or that breaks the connection, is sent this often before it is halved. */
const SENDS_BEFORE_HALVING = 3;

/**
 * When the server has failed on this many traces one after the other, each alone, it must show that it takes any at all.
 * It bounds what halving costs in an outage: some 20 batches of 3 sends, about 15 s.
 */
const FAILED_IN_A_ROW_IS_SUSPECT = 10;

/**
 * That this many traces are refused and not one is taken may be a fault between us and the server, not of the traces: it
 * fails the chunk unless the server takes another one. Fewer may be what they seem.
 */
const REFUSED_IS_SUSPECT = 20;

export interface Delivery<T extends { traceId: string }> {
  retry: RetryPolicy;
  /** Writes the whole batch or nothing of it. */
  send(batch: readonly T[]): Promise<void>;
  /** Writes a trace that is known to be good, once; it is not one of those delivered. */
  control(): Promise<void>;
  /** Those of the traces that exist. */
  existing(traces: readonly T[]): Promise<ReadonlySet<string>>;
  /** Throws when the refusal is not about the traces, e.g. because the experiment is deleted. */
  checkRefusal(error: MlflowRefusedError): Promise<void>;
  /** Told of a batch that was refused as too large. */
  tooLarge?(batch: readonly T[]): void;
}

/** Collects what became of the traces over many batches. */
export class Deliveries<T extends { traceId: string }> {
  readonly #delivery: Delivery<T>;
  readonly #result: WriteTracesResult = { written: [], alreadyThere: [], refused: [] };
  /** Traces that the server failed on, each alone and more than once. */
  readonly #suspects: Suspect<T>[] = [];
  #failedInARow = 0;
  #firstRefusal: string | undefined;

  constructor(delivery: Delivery<T>) {
    this.#delivery = delivery;
  }

  /** @throws what must stop the writing: an outage, denied access, a deleted experiment, a missing route */
  async deliver(batch: readonly T[]): Promise<void> {
    let rest = batch;
    let unknown = false;
    for (let attempt = 1; ; attempt += 1) {
      try {
        if (unknown) rest = await this.#absent(rest);
        if (rest.length > 0) await this.#delivery.send(rest);
        this.#failedInARow = 0;
        this.#result.written.push(...rest.map(({ traceId }) => traceId));
        return;
      } catch (error) {
        if (error instanceof MlflowRefusedError) return this.#refused(rest, error);
        if (!(error instanceof MlflowRetryableError)) throw error;
        unknown ||= error.outcome === 'unknown';
        if (attempt >= SENDS_BEFORE_HALVING && mayBeTheContent(error)) return this.#failed(rest, error);
        const wait = waitAfter(this.#delivery.retry, attempt, error.retryAfterMs);
        if (wait === undefined) throw error;
        // A request that is still being worked on is not there yet when we look: it gets the longest wait to finish.
        await sleep(error.mayBeAtWork ? Math.max(wait, this.#delivery.retry.capMs) : wait);
      }
    }
  }

  /**
   * To be called when all is delivered: finds out which of the traces that the server failed on are at fault.
   *
   * @throws MlflowRetryableError when it cannot be told: the server fails on others as well
   */
  async result(): Promise<WriteTracesResult> {
    const { written, alreadyThere, refused } = this.#result;
    if (this.#suspects.length > 0) await this.#trySuspects();
    const taken = written.length + alreadyThere.length;
    if (taken === 0 && refused.length >= REFUSED_IS_SUSPECT && !(await this.#takesAny())) {
      throw new PermanentError('MlflowRefusesAll', 'MLflow refused every trace', {
        got: `${refused.length} traces refused; the first: ${this.#firstRefusal ?? refused[0]?.reason.name}`,
        expected: 'some of them to be taken',
      });
    }
    return this.#result;
  }

  /** Whether the server takes a trace that is known to be good. */
  async #takesAny(): Promise<boolean> {
    try {
      await withRetries(this.#delivery.retry, () => this.#delivery.control());
      return true;
    } catch (error) {
      if (error instanceof MlflowRefusedError) return false;
      throw error;
    }
  }

  async #trySuspects(): Promise<void> {
    const { retry, control, existing, send } = this.#delivery;
    const verdicts = await trySuspects(this.#suspects, {
      retry,
      control,
      existing,
      send: (trace) => send([trace]),
      mayBeTheContent,
    });
    this.#result.written.push(...verdicts.written);
    for (const { trace, error } of verdicts.guilty) {
      this.#result.refused.push({
        traceId: trace.traceId,
        reason: { name: 'MlflowFailsOnTrace', message: error.reason },
      });
    }
    for (const { trace, error } of verdicts.refused) await this.#refused([trace], error);
  }

  /** After an unknown outcome: what is there was written by us (or by a twin of this run), the rest is to be sent. */
  async #absent(batch: readonly T[]): Promise<readonly T[]> {
    const existing = await this.#delivery.existing(batch);
    this.#result.written.push(...existing);
    return batch.filter(({ traceId }) => !existing.has(traceId));
  }

  async #refused(batch: readonly T[], error: MlflowRefusedError): Promise<void> {
    if (error.routeMissing) throw error;
    if (error.status === 413) this.#delivery.tooLarge?.(batch);
    else await this.#delivery.checkRefusal(error);
    const [only, ...others] = batch;
    if (only === undefined) return;
    if (others.length > 0) return this.#halves(batch);
    // A trace that another run has written meanwhile may be refused, and is there.
    const existing = await this.#delivery.existing([only]);
    if (existing.has(only.traceId)) this.#result.alreadyThere.push(only.traceId);
    else {
      this.#firstRefusal ??= error.message;
      this.#result.refused.push({ traceId: only.traceId, reason: { name: error.name, message: error.reason } });
    }
  }

  async #failed(batch: readonly T[], error: MlflowRetryableError): Promise<void> {
    const absent = error.outcome === 'unknown' ? await this.#absent(batch) : batch;
    const [only, ...others] = absent;
    if (others.length > 0) return this.#halves(absent);
    if (only === undefined) return;
    this.#suspects.push({ trace: only, error });
    this.#failedInARow += 1;
    if (this.#failedInARow < FAILED_IN_A_ROW_IS_SUSPECT) return;
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
 * MLflow answers 500 to what its database driver cannot encode, and gateways cut the connection of a body that is too
 * large while it is being sent: either may be the fault of one trace. Other failures are the server's.
 */
const mayBeTheContent = (error: MlflowRetryableError): boolean => error.status === 500 || error.whileSending;
