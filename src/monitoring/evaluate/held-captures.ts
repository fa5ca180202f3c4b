/** Keeps only as many captures in memory as there is room for. */
import type { Capture } from '../../captures/types.ts';
import { weightAtOnce } from '../../core/process/memory.ts';
import type { CaptureLine } from '../chunk/decode-lines.ts';

/** Captures of a chunk that wait to be judged. They stay decoded while there is room; the others are decoded again. */
export class HeldCaptures {
  #room = weightAtOnce();

  /** @returns a function that gives the capture. It keeps no more of the line in memory than it needs. */
  hold({ capture, weight, again }: CaptureLine): () => Capture {
    if (again !== undefined && weight > this.#room) return () => decodedAgain(again);
    this.#room -= weight;
    return holder(capture);
  }
}

/** A separate function, so that the closure keeps the capture alone in memory, not its line. */
const holder = (capture: Capture) => () => capture;

function decodedAgain(again: NonNullable<CaptureLine['again']>): Capture {
  const decoded = again();
  if (decoded.kind === 'capture') return decoded.capture;
  throw new Error(`A line that was a capture is now quarantined: ${decoded.reason.name}`);
}

/** Starts work on captures when there is room for their weight. A capture that is too heavy for any room runs alone. */
export class MemoryBudget {
  #room = weightAtOnce();
  #inside = 0;
  #waiting: (() => void)[] = [];

  /** Does the work when there is enough room. */
  async pass<T>(weight: number, work: () => Promise<T>): Promise<T> {
    while (this.#inside > 0 && weight > this.#room) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#inside += 1;
    this.#room -= weight;
    try {
      return await work();
    } finally {
      this.#inside -= 1;
      this.#room += weight;
      for (const resume of this.#waiting.splice(0)) resume();
    }
  }
}
