/**
 * The features that a model supports, as far as its properties and its calls tell. Of a model without properties nothing is assumed:
 * the strictest form is tried first and a refusal is remembered. While the first capture finds out, the others wait for it.
 */
import { type Feature, isFeature } from '../errors.ts';
import type { ModelProperties } from '../models/model-properties.ts';
import { RUNGS, type Rung } from '../prompt/build-prompt.ts';

/** After this many answers in another form, a model that ignores a rung is not asked on that rung again. */
const MAX_IGNORED = 3;

export class ModelCapabilities {
  /** Features that the model refuses. */
  #refused: Set<Feature>;
  private ignored = 0;
  /** Something was refused, perhaps of one capture alone. */
  isGuess = false;
  /** An answer has arrived. */
  isConfirmed = false;
  /** Captures no longer wait. */
  private settled = false;
  /** Ends with the capture that finds out, while nothing is known. */
  private pioneer: PromiseWithResolvers<void> | undefined;

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
   * Lets the judging of a capture start. The first one is the pioneer, and the others wait until it leaves.
   * @throws the signal's reason when it is aborted while waiting
   */
  async enter(signal?: AbortSignal): Promise<void> {
    while (!this.settled && this.pioneer !== undefined) await orAborted(this.pioneer.promise, signal);
    if (!this.settled) this.pioneer = Promise.withResolvers();
  }

  /** Ends the wait for the pioneer. @param isSettled waiting would teach nothing: all start, and not only the next pioneer */
  leave(isSettled: boolean): void {
    this.settled ||= isSettled;
    this.pioneer?.resolve();
    this.pioneer = undefined;
  }

  /** Steps down from a rung that the model refuses. @returns false if there is no looser rung */
  refuseRung(rung: Rung): boolean {
    if (rung === 'prompt') return false;
    this.refuseFeature(rung);
    this.ignored = 0;
    return true;
  }

  refuseFeature(feature: Feature): void {
    this.isGuess = true;
    this.#refused.add(feature);
  }

  /** Records whether an answer had the form of the rung. */
  recordForm(rung: Rung, kept: boolean): void {
    if (rung === 'prompt' || !this.supports(rung)) return;
    this.ignored = kept ? 0 : this.ignored + 1;
    if (this.ignored >= MAX_IGNORED) this.#refused.add(rung);
  }

  /** Takes over what the model refuses of a harmless question: other refusals may have concerned one capture. */
  adopt(refused: Iterable<string>): void {
    this.#refused = new Set([...refused].filter(isFeature));
    this.isGuess = false;
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
