/**
 * The features that a model supports, according to its properties and its calls. For a model without properties nothing
 * is assumed: the strictest form is tried first and a refusal is remembered. While the first capture finds out, the
 * others wait for it.
 */
import { type Feature, isFeature } from '../errors.ts';
import type { ModelProperties } from '../models/model-properties.ts';
import { RUNGS, type Rung } from '../prompt/build-prompt.ts';
import { AdaptiveLimiter } from './limiter.ts';

/** After this many answers in another form, a model that ignores a rung is not asked on that rung again. */
const MAX_IGNORED = 3;

export class ModelCapabilities {
  /** Features that the model refuses. */
  #refused: Set<Feature>;
  private ignored = 0;
  /** A feature was refused, perhaps because of one capture alone. */
  isGuess = false;
  /** An answer has arrived. */
  isConfirmed = false;
  /** Captures no longer wait. */
  private settled = false;
  /** Until the features are known, it has room only for the capture that finds out. */
  private readonly gate = new AdaptiveLimiter();
  private leaveGate: Awaited<ReturnType<AdaptiveLimiter['acquire']>> | undefined;

  /** @param properties absent if the model's properties are unknown */
  constructor(properties: ModelProperties | undefined) {
    this.#refused = new Set(properties?.refuses.filter(isFeature));
    this.gate.max = 1;
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
   * Lets the judging of a capture start. The first capture is the pioneer, and the others wait until it leaves.
   * @throws the signal's reason when it is aborted while waiting
   */
  async enter(signal?: AbortSignal): Promise<void> {
    this.leaveGate = await this.gate.acquire(signal);
    if (this.settled) this.leave(true);
  }

  /**
   * Ends the wait for the pioneer. @param isSettled starts all captures instead of only the next pioneer, because
   * waiting would find out nothing
   */
  leave(isSettled: boolean): void {
    this.settled ||= isSettled;
    this.leaveGate?.('other');
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

  /**
   * Takes over the features that the model refuses for a harmless question. Other refusals may have concerned one
   * capture.
   */
  adopt(refused: Iterable<string>): void {
    this.#refused = new Set([...refused].filter(isFeature));
    this.isGuess = false;
    this.ignored = 0;
  }
}

export const lowerRung = (rung: Rung): Rung => RUNGS[RUNGS.indexOf(rung) + 1] ?? 'prompt';
