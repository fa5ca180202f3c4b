/** Captures in memory, as many as there is room for. */
import type { Capture } from '../../formats/types.ts';
import { weightAtOnce } from '../../shared/memory.ts';
import type { CaptureLine } from '../chunk/chunk-reader.ts';

/** Captures of a chunk that wait for their turn: decoded while there is room for them, else decoded again when read. */
export class HeldCaptures {
  #room = weightAtOnce();

  /** @returns reads the capture. Of the line it holds no more than it needs. */
  hold({ capture, weight, again }: CaptureLine): () => Capture {
    if (weight > this.#room) return () => decodedAgain(again);
    this.#room -= weight;
    return holder(capture);
  }
}

const holder = (capture: Capture) => () => capture;

function decodedAgain(again: CaptureLine['again']): Capture {
  const decoded = again();
  if (decoded.kind === 'capture') return decoded.capture;
  throw new Error(`The line was a capture when it was read first: ${decoded.reason.name}`);
}

/** Lets work on captures begin when there is room for what they weigh; one that is too heavy for any room, alone. */
export class WeightGate {
  #room = weightAtOnce();
  #inside = 0;
  #waiting: (() => void)[] = [];

  /** Does the work when its turn comes. */
  async pass<T>(weight: number, work: () => Promise<T>): Promise<T> {
    while (this.#inside > 0 && weight > this.#room) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#inside += 1;
    this.#room -= weight;
    try {
      return await work();
    } finally {
      this.#inside -= 1;
      this.#room += weight;
      const waiting = this.#waiting;
      this.#waiting = [];
      for (const resume of waiting) resume();
    }
  }
}
