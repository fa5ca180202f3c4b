/** Answers a capture's first question from a batch job's output, and all that has to be asked again by a real call. */
import { CallFailure } from '../errors.ts';
import type { Ask, Told, Transport } from '../transport.ts';

/** Asks whether the budget has room for real calls. @returns false when they are held */
export type CallGate = () => Promise<boolean>;

export class BatchTransport implements Transport {
  readonly sourceId: string;
  readonly userSet: ReadonlySet<string>;
  readonly #inner: Transport;
  readonly #gate: CallGate;
  #answer: Told | undefined;

  /**
   * @param answer what the job said of the capture; `undefined` when it said nothing
   * @param gate asked before each real call
   */
  constructor(inner: Transport, answer: Told | undefined, gate: CallGate) {
    this.sourceId = inner.sourceId;
    this.userSet = inner.userSet;
    this.#inner = inner;
    this.#answer = answer;
    this.#gate = gate;
  }

  async send(ask: Ask, signal?: AbortSignal): Promise<Told> {
    const answer = this.#answer;
    this.#answer = undefined;
    if (answer !== undefined) return answer;
    if (!(await this.#gate())) throw new CallFailure('held', 'The budget leaves no room for the call');
    return this.#inner.send(ask, signal);
  }
}
