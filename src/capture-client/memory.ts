/** Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents. */
import type { Call } from './call.ts';

export class Memory {
  used = 0;
  /** Calls that lost their contents. */
  stripped = 0;
  readonly #most: number;
  readonly #sizes = new Map<Call, number>();
  /** Calls that have contents, by the binary logarithm of their size, so that a large one is found at once. */
  readonly #bySize: Set<Call>[] = Array.from({ length: 33 }, () => new Set());

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
    for (let i = this.#bySize.length - 1; i >= 0 && this.isOver; i -= 1) {
      for (const large of this.#bySize[i] ?? []) {
        if (!this.isOver) break;
        for (const side of [large.request, large.reply]) if (side.held > 0) side.leave('memory');
        this.stripped += 1;
        this.#setSize(large, large.held);
      }
    }
  }

  /** Forgets a call. */
  release(call: Call): void {
    this.#setSize(call, 0);
    this.#sizes.delete(call);
  }

  #setSize(call: Call, size: number): void {
    const before = this.#sizes.get(call) ?? 0;
    this.used += size - before;
    this.#sizes.set(call, size);
    this.#bySize[32 - Math.clz32(before)]?.delete(call);
    if (size > 0 && call.contents > 0) this.#bySize[32 - Math.clz32(size)]?.add(call);
  }
}
