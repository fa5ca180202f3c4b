/** Waits until a server that was just started answers. */
import type { GuardedProcess } from '../machine/guarded-process.ts';

const POLL_MS = 100;

/**
 * Polls a server until it is healthy.
 *
 * @throws Error with the end of the server's log if its process ends or it does not answer in time
 */
export async function untilHealthy(
  server: GuardedProcess,
  health: { name: string; url: string; limitMs: number; isHealthy: () => Promise<boolean> },
): Promise<void> {
  const deadline = Date.now() + health.limitMs;
  while (!(await health.isHealthy())) {
    const ended = server.ended();
    if (ended !== undefined || Date.now() > deadline) {
      throw new Error(
        [
          `${health.name} did not start`,
          `got: ${ended ?? `no answer in ${health.limitMs / 1000} s`}`,
          `expected: 200 from ${health.url}`,
          `end of its log:\n${server.logTail()}`,
        ].join('; '),
      );
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
