/** What the chunks of a run showed about the objectives: the receipts' observations, added up. */
import type { ManifestLine } from '../contract/payloads.ts';
import type { QualityObservations } from '../contract/quality.ts';
import { ObservationBook } from '../quality/observations.ts';
import { type ChunkState, partsDone } from './receipts.ts';

interface ObservedState {
  experimentId: string;
  observations?: QualityObservations | undefined;
}

export class ObservedChunks {
  readonly #book = new ObservationBook();
  #experimentId = '';

  /** Adds the observations of the attempts that count: the last at each part. */
  add({ experimentId, lines }: ManifestLine, { log, evaluate }: ChunkState): void {
    this.#experimentId = experimentId;
    for (const { parts, error } of [partsDone(log, lines), partsDone(evaluate, lines)]) {
      for (const { observations } of [...parts, ...(error === undefined ? [] : [error])]) {
        if (observations !== undefined) this.#book.add(observations);
      }
    }
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
