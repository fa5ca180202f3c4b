/** Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents. */
import type { Call } from './call.ts';

export class Memory {
  used = 0;
  readonly #most: number;
  /** Calls that have contents, by the binary logarithm of their size, so that a large one is found at once. */
  readonly #bySize: Set<Call>[] = Array.from({ length: 32 }, () => new Set());
  readonly #sizes = new Map<Call, number>();

  constructor(mostBytes: number) {
    this.#most = mostBytes;
  }

  /** Counts a call at its present size. */
  count(call: Call): void {
    this.release(call);
    const size = call.held;
    this.#sizes.set(call, size);
    if (call.hasContents) this.#classOf(size).add(call);
    this.used += size;
  }

  release(call: Call): void {
    const size = this.#sizes.get(call);
    if (size === undefined) return;
    this.#sizes.delete(call);
    this.#classOf(size).delete(call);
    this.used -= size;
  }

  get isOver(): boolean {
    return this.used > this.#most;
  }

  /** Takes the contents of the largest calls. @returns the number of calls that lost theirs */
  shrink(): number {
    let shrunk = 0;
    for (let i = this.#bySize.length - 1; i >= 0 && this.isOver; i--) {
      for (const call of this.#bySize[i] as Set<Call>) {
        if (!this.isOver) break;
        call.leaveOutContents();
        shrunk += 1;
        this.count(call);
      }
    }
    return shrunk;
  }

  #classOf(size: number): Set<Call> {
    return this.#bySize[31 - Math.clz32(size)] as Set<Call>;
  }
}
