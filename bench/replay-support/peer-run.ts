/** Runs the peer. A failure of the peer is reported and does not affect the other figures. */
import type { Log } from '../../local/python/python-environment.ts';

/** AIPerf 0.13 sometimes ends with exit code 1 after all its requests were answered, because one of its services missed its heartbeats. */
const ATTEMPTS = 2;

/**
 * Runs the peer, and retries once if it fails.
 *
 * @returns its result; `undefined` if every attempt failed
 */
export async function tolerant<T>(
  what: string,
  tell: Log,
  run: (attempt: number) => Promise<T>,
): Promise<T | undefined> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    try {
      return await run(attempt);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const next = attempt < ATTEMPTS ? 'it is run once more' : 'no figure of it in this round';
      tell(`${what} failed, ${next}: ${reason}`);
    }
  }
  return undefined;
}
