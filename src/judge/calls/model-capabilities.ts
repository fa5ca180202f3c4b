/**
 * The features that a model supports, as far as its properties and its calls tell. Of a model without properties nothing is assumed:
 * the strictest form is tried first and a refusal is remembered. While the first call finds out, the others wait for it.
 */
import { type Feature, isFeature } from '../errors.ts';
import type { ModelProperties } from '../models/model-properties.ts';
import { RUNGS, type Rung } from '../prompt/build-prompt.ts';

/** After this many answers in another form, a model that ignores a rung is not asked on that rung again. */
const MAX_IGNORED = 3;

type End = 'answered' | 'throttled' | 'other';

export class ModelCapabilities {
  /** Features that the model refuses. */
  #refused: Set<Feature>;
  private ignored = 0;
  /** An answer has arrived. */
  isConfirmed = false;
  /** Calls no longer wait. */
  private settled = false;
  /** The call that finds out, while nothing is known. */
  private pioneer: Promise<void> | undefined;

  /** @param properties absent: those of the model are unknown */
  constructor(properties: ModelProperties | undefined) {
    this.#refused = new Set(properties?.refuses.filter(isFeature));
  }

  get refused(): ReadonlySet<Feature> {
    return this.#refused;
  }

  /** Returns the strictest form that is no stricter than `from`. */
  rungFrom(from: Rung): Rung {
    return RUNGS.slice(RUNGS.indexOf(from)).find((rung) => rung === 'prompt' || this.supports(rung)) ?? 'prompt';
  }

  supports(feature: Feature): boolean {
    return !this.#refused.has(feature);
  }

  /**
   * Lets a call start. The first call is the pioneer, and the others wait for its end. After an answer all of them start.
   * After throttling one of them becomes the next pioneer. After any other end, waiting would teach nothing: all start.
   * @returns a function to call once, when the call has ended
   * @throws the signal's reason when it is aborted while waiting
   */
  async enter(signal?: AbortSignal): Promise<(end: End) => void> {
    while (!this.settled && this.pioneer !== undefined) await orAborted(this.pioneer, signal);
    if (this.settled) return (end) => this.settle(end);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.pioneer = promise;
    return (end) => {
      this.settle(end);
      this.pioneer = undefined;
      resolve();
    };
  }

  private settle(end: End): void {
    if (end === 'answered') this.isConfirmed = true;
    if (end !== 'throttled') this.settled = true;
  }

  /** Steps down from a rung that the model refuses. @returns false if there is no looser rung */
  refuseRung(rung: Rung): boolean {
    if (rung === 'prompt') return false;
    this.#refused.add(rung);
    this.ignored = 0;
    return true;
  }

  refuseFeature(feature: Feature): void {
    this.#refused.add(feature);
  }

  /** Records whether an answer had the form of the rung. */
  recordForm(rung: Rung, kept: boolean): void {
    if (rung === 'prompt' || !this.supports(rung)) return;
    this.ignored = kept ? 0 : this.ignored + 1;
    if (this.ignored >= MAX_IGNORED) this.refuseRung(rung);
  }

  /** Takes over what the model refuses of a harmless question: other refusals may have concerned one capture. */
  adopt(refused: Iterable<Feature>): void {
    this.#refused = new Set(refused);
    this.ignored = 0;
  }
}

/** Waits for the promise or until the signal is aborted. */
async function orAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return promise;
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

export const lowerRung = (rung: Rung): Rung => RUNGS[RUNGS.indexOf(rung) + 1] ?? 'prompt';
