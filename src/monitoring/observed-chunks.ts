/** What the chunks of a run showed about the objectives: the receipts' observations, added up. */
import type { ManifestLine } from '../core/contract/payloads.ts';
import type { QualityObservations } from '../core/contract/quality.ts';
import type { Receipt } from '../core/contract/receipts.ts';
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
    const of = ({ parts, error }: { parts: Receipt[]; error?: Receipt }): QualityObservations[] =>
      [...parts, ...(error === undefined ? [] : [error])].flatMap(({ observations }) => observations ?? []);
    const evaluated = of(partsDone(evaluate, lines));
    // If the judge of a batch was away, both steps have seen the captures.
    for (const each of evaluated.length > 0 ? evaluated : of(partsDone(log, lines))) this.#book.add(each);
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
