/** What the chunks of a run showed about the objectives: the receipts' observations, added up. */
import type { ManifestLine } from '../core/contract/payloads.ts';
import type { QualityObservations } from '../core/contract/quality.ts';
import type { Receipt } from '../core/contract/receipts.ts';
import { ObservationBook } from '../quality/observations.ts';
import type { ChunkState, StepState } from './receipts.ts';

interface ObservedState {
  experimentId: string;
  observations?: QualityObservations | undefined;
}

export class ObservedChunks {
  readonly #book = new ObservationBook();
  #experimentId = '';

  /** Adds the observations of the attempt that counts. */
  add({ experimentId }: ManifestLine, { log, evaluate }: ChunkState): void {
    this.#experimentId = experimentId;
    const of = ({ done, failed }: StepState<Receipt>) => (done ?? failed)?.observations;
    // If the judge of a batch was away, both steps have seen the captures.
    const observations = of(evaluate) ?? of(log);
    if (observations !== undefined) this.#book.add(observations);
  }

  restore(earlier: ObservedState | undefined): void {
    if (earlier === undefined) return;
    this.#experimentId = earlier.experimentId;
    if (earlier.observations !== undefined) this.#book.add(earlier.observations);
  }

  state(): ObservedState {
    return { experimentId: this.#experimentId, observations: this.#book.observations() };
  }
}
