/** Re-signs requests whose signatures would expire while they wait for room under the cap. */
import type { RequestQueue } from './request-queue.ts';
import { SlicePace } from './slices.ts';

/** Checks of the queue within the lifetime of a signature. */
const CHECKS = 8;

export class Renewer {
  readonly #queue: RequestQueue;
  readonly #timer: NodeJS.Timeout | undefined;
  #running = false;
  #stopped = false;

  /**
   * Starts to check the queue.
   *
   * @param goodForMs an older request is encoded again, at most an eighth of this time later; `undefined`: none expires
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
      const pace = new SlicePace();
      const now = performance.now();
      for (const request of this.#queue.waiting()) {
        const { renewal } = request;
        if (!renewal || now - renewal.since < goodForMs) continue;
        const encoded = await renewal.encode();
        if (this.#stopped) return;
        this.#queue.replaceWire(request, encoded);
        renewal.since = performance.now();
        if (pace.due) await pace.rest();
      }
    } catch {
      // Without credentials the requests stay as they are. The target refuses expired ones with its own error.
    } finally {
      this.#running = false;
    }
  }
}
