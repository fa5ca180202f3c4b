/** Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents. */
import type { Call } from './call.ts';

export class Memory {
  used = 0;
  /** Calls that lost their contents. */
  stripped = 0;
  readonly #most: number;
  readonly #sizes = new Map<Call, number>();
  /** Calls that have contents, by the binary logarithm of their size, so that a large one is found at once. */
  readonly #bySize: Set<Call>[] = Array.from({ length: 32 }, () => new Set());

  constructor(mostBytes: number) {
    this.#most = mostBytes;
  }

  get isOver(): boolean {
    return this.used > this.#most;
  }

  /** Counts a call at its present size. */
  count(call: Call): void {
    this.#measure(call);
    for (let i = this.#bySize.length - 1; i >= 0 && this.isOver; i--) {
      for (const large of this.#bySize[i] ?? []) {
        if (!this.isOver) break;
        for (const side of [large.request, large.reply]) {
          if (side.held > 0) side.left = 'memory';
          side.forget();
        }
        this.stripped += 1;
        this.#measure(large);
      }
    }
  }

  /** Forgets a call, and its contents. */
  release(call: Call): void {
    this.#forget(call);
    call.request.forget();
    call.reply.forget();
  }

  #measure(call: Call): void {
    this.#forget(call);
    const size = call.held;
    this.#sizes.set(call, size);
    this.used += size;
    if (call.contents > 0) this.#bySize[31 - Math.clz32(size)]?.add(call);
  }

  #forget(call: Call): void {
    const size = this.#sizes.get(call) ?? 0;
    this.#sizes.delete(call);
    this.used -= size;
    this.#bySize[31 - Math.clz32(size)]?.delete(call);
  }
}
