/** Re-signs requests whose signatures would expire while they wait for room under the cap. */
import type { RequestQueue } from './request-queue.ts';
import { SlicePace } from './slices.ts';

/** Checks of the queue within the lifetime of a signature. */
const CHECKS = 8;

/**
 * Starts to check the queue.
 *
 * @param goodForMs an older request is encoded again, at most an eighth of this time later; `undefined`: none expires
 * @returns stops it
 */
export function renewRequests(queue: RequestQueue, goodForMs: number | undefined): () => void {
  if (goodForMs === undefined) return () => {};
  let isRunning = false;
  let isStopped = false;
  const renew = async (): Promise<void> => {
    const pace = new SlicePace();
    const now = performance.now();
    for (const request of queue.waiting()) {
      const { renewal } = request;
      if (!renewal || now - renewal.since < goodForMs) continue;
      const encoded = await renewal.encode();
      if (isStopped) return;
      queue.replaceWire(request, encoded);
      renewal.since = performance.now();
      if (pace.due) await pace.rest();
    }
  };
  const timer = setInterval(async () => {
    if (isRunning) return;
    isRunning = true;
    // Without credentials the requests stay as they are. The target refuses expired ones with its own error.
    await renew().catch(() => {});
    isRunning = false;
  }, goodForMs / CHECKS);
  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}
