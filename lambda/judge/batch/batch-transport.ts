/** Answers a capture's first question from a batch job's output, and all that has to be asked again by a real call. */
import type { Ask, Told, Transport } from '../transport.ts';

export class BatchTransport implements Transport {
  readonly sourceId: string;
  readonly userSet: ReadonlySet<string>;
  readonly #inner: Transport;
  #answer: Told | undefined;

  /** @param answer what the job said of the capture; `undefined` when it said nothing. */
  constructor(inner: Transport, answer: Told | undefined) {
    this.sourceId = inner.sourceId;
    this.userSet = inner.userSet;
    this.#inner = inner;
    this.#answer = answer;
  }

  send(ask: Ask, signal?: AbortSignal): Promise<Told> {
    const answer = this.#answer;
    if (answer === undefined) return this.#inner.send(ask, signal);
    this.#answer = undefined;
    return Promise.resolve(answer);
  }
}
