/** How a stopped run treats the requests that are in flight. */
import { CANCELLED_TYPE } from '../measure/measure.ts';

/** The error of a request that was in flight when the run ended early. */
export const stoppedError = (message = 'The replay was stopped') => ({ code: 499, type: CANCELLED_TYPE, message });

/**
 * Calls `stop` when the signal is aborted, immediately if it already is.
 *
 * @returns removes the listener
 */
export function onAbort(signal: AbortSignal | undefined, stop: () => void): () => void {
  if (signal?.aborted) stop();
  else signal?.addEventListener('abort', stop, { once: true });
  return () => signal?.removeEventListener('abort', stop);
}
