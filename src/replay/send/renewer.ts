/** A signed request that waits for room may outlive its signature: it is signed anew before that. */
import type { RequestQueue } from './request-queue.ts';
import { Pace } from './slices.ts';

/** Looked at so often in the time that a request is good for. */
const CHECKS = 8;

export class Renewer {
  readonly #queue: RequestQueue;
  readonly #timer: NodeJS.Timeout | undefined;
  #running = false;
  #stopped = false;

  /**
   * @param goodForMs a request that is older is made anew, an eighth of that later at most; `undefined`: none is
   */
  constructor(queue: RequestQueue, goodForMs: number | undefined) {
    this.#queue = queue;
    if (goodForMs !== undefined) this.#timer = setInterval(() => void this.#renew(goodForMs), goodForMs / CHECKS);
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
  }

  async #renew(goodForMs: number): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    try {
      const pace = new Pace();
      const now = performance.now();
      // A copy: the queue goes on while requests are signed.
      for (const request of [...this.#queue.waiting()]) {
        const { renewal } = request;
        if (!renewal || now - renewal.since < goodForMs) continue;
        const encoded = await renewal.encode();
        if (this.#stopped) return;
        this.#queue.replaceWire(request, encoded);
        renewal.since = performance.now();
        if (pace.due) await pace.rest();
      }
    } catch {
      // Without credentials they stay as they are: the target refuses those that are too old, and says so.
    } finally {
      this.#running = false;
    }
  }
}
