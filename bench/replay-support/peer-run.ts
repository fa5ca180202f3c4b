/** The peer may fail by itself: its failure is told and must not take the figures of all others with it. */
import type { Log } from '../../local/python/python-environment.ts';

/** AIPerf 0.13 now and then ends with exit code 1 after all its requests have been answered: a service of it missed its heartbeats. */
const ATTEMPTS = 2;

/**
 * The result of a run of the peer, which is tried once more when it fails.
 *
 * @returns `undefined` when it failed each time
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
