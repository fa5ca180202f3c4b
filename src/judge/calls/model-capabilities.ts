/**
 * What a model has been found to support. Models differ and change, so nothing is assumed by name: the strictest form
 * is tried first, a refusal is remembered, and while the first call is finding out, the others wait for it rather
 * than be refused as well.
 */
import type { Feature } from '../errors.ts';
import { RUNGS, type Rung } from '../prompt/build-prompt.ts';

/** A model that takes no notice of a rung is not asked on it again after so many answers that were not in its form. */
const MAX_IGNORED = 3;

export class ModelCapabilities {
  private rungIndex = 0;
  private readonly lacking = new Set<Feature>();
  private ignored = 0;
  /** An answer has come in. */
  private confirmed = false;
  /** Nobody waits any more. */
  private settled = false;
  /** The call that is finding out, while nothing is known. */
  private pioneer: Promise<void> | undefined;

  get rung(): Rung {
    return RUNGS[this.rungIndex] ?? 'prompt';
  }

  get isConfirmed(): boolean {
    return this.confirmed;
  }

  supports(feature: Feature): boolean {
    return !this.lacking.has(feature);
  }

  /**
   * Lets a caller begin. The first is the pioneer, the others wait for how it ends: after an answer all of them go; after
   * throttling one of them is the next pioneer; after anything else waiting would teach nothing, and all of them go.
   * @returns to be called with the call's end, once
   * @throws the signal's reason when it is aborted while waiting
   */
  async enter(signal?: AbortSignal): Promise<(end: 'answered' | 'throttled' | 'other') => void> {
    while (!this.settled && this.pioneer !== undefined) await orAborted(this.pioneer, signal);
    if (this.settled) return (end) => this.settle(end);
    let wake = (): void => {};
    this.pioneer = new Promise((resolve) => {
      wake = resolve;
    });
    return (end) => {
      this.settle(end);
      this.pioneer = undefined;
      wake();
    };
  }

  private settle(end: 'answered' | 'throttled' | 'other'): void {
    if (end === 'answered') this.confirmed = true;
    if (end !== 'throttled') this.settled = true;
  }

  /** The model refuses the rung. @returns whether there is a lower one */
  refuseRung(rung: Rung): boolean {
    // Another call may have stepped down already.
    if (this.rung === rung && this.rungIndex < RUNGS.length - 1) {
      this.rungIndex += 1;
      this.ignored = 0;
    }
    return this.rung !== rung;
  }

  /** @returns whether the feature was still taken for supported */
  refuseFeature(feature: Feature): boolean {
    if (this.lacking.has(feature)) return false;
    this.lacking.add(feature);
    return true;
  }

  /** The answer was in the rung's form, or was not. */
  noteForm(rung: Rung, kept: boolean): void {
    if (this.rung !== rung) return;
    this.ignored = kept ? 0 : this.ignored + 1;
    if (this.ignored >= MAX_IGNORED) this.refuseRung(rung);
  }

  /** Starts over: what was refused was one capture, not the form. */
  reset(): void {
    this.rungIndex = 0;
    this.ignored = 0;
  }
}

/** Waits for the promise, or until the signal is aborted. */
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

export const lowerRung = (rung: Rung): Rung => RUNGS[Math.min(RUNGS.indexOf(rung) + 1, RUNGS.length - 1)] ?? 'prompt';

/** The looser of two rungs. */
export const looser = (a: Rung, b: Rung): Rung => (RUNGS.indexOf(a) >= RUNGS.indexOf(b) ? a : b);
