/** Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents. */
import type { Call } from './call.ts';

export class Memory {
  used = 0;
  /** Calls that lost their contents. */
  stripped = 0;
  readonly #most: number;
  readonly #sizes = new Map<Call, number>();

  constructor(mostBytes: number) {
    this.#most = mostBytes;
  }

  get isOver(): boolean {
    return this.used > this.#most;
  }

  /** Returns the calls that have ended, or those that run. */
  calls(haveEnded: boolean): Call[] {
    return [...this.#sizes.keys()].filter(({ client }) => (client.ended !== undefined) === haveEnded);
  }

  /** Counts a call at its present size. */
  count(call: Call): void {
    this.#setSize(call, call.held);
    for (let large = this.#largest(); this.isOver && large !== undefined; large = this.#largest()) {
      for (const side of [large.request, large.reply]) if (side.held > 0) side.leave('memory');
      this.stripped += 1;
      this.#setSize(large, large.held);
    }
  }

  /** Forgets a call. */
  release(call: Call): void {
    this.#setSize(call, 0);
    this.#sizes.delete(call);
  }

  #setSize(call: Call, size: number): void {
    this.used += size - (this.#sizes.get(call) ?? 0);
    this.#sizes.set(call, size);
  }

  /** Returns the call with the largest contents, if there are any and the bound is passed. */
  #largest(): Call | undefined {
    if (!this.isOver) return undefined;
    let largest: Call | undefined;
    for (const call of this.#sizes.keys()) if (call.contents > (largest?.contents ?? 0)) largest = call;
    return largest;
  }
}
