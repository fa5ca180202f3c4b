/** Follows executions until all have ended. */
import { setTimeout as sleep } from 'node:timers/promises';

interface Look {
  /** Of the execution. */
  status: string;
  /** What is new since the last look. */
  news: string[];
}

interface FollowOptions<T> {
  /** Called after each look, with every execution. */
  onLook(looks: readonly T[]): void;
  signal?: AbortSignal | undefined;
  /** Bounds of the time between two looks, which is a fiftieth of the time so far. Default: 1 s and 10 s. */
  pollMs?: { least: number; most: number };
}

const POLL_MS = { least: 1_000, most: 10_000 };
const POLL_SHARE = 0.02;

/**
 * Returns the last look at each execution.
 *
 * @throws what the signal was aborted with. The executions go on.
 */
export async function followRuns<T extends Look>(
  watchers: readonly { look(): Promise<T> }[],
  { onLook, signal, pollMs = POLL_MS }: FollowOptions<T>,
): Promise<T[]> {
  const watched = watchers.map((watcher) => ({ watcher, last: undefined as T | undefined }));
  const startedMs = Date.now();
  for (;;) {
    for (const each of watched) {
      signal?.throwIfAborted();
      if (each.last === undefined || !hasEnded(each.last)) each.last = await each.watcher.look();
      else each.last.news = [];
    }
    const looks = watched.flatMap(({ last }) => last ?? []);
    onLook(looks);
    if (looks.every(hasEnded)) return looks;
    const pause = Math.min(pollMs.most, Math.max(pollMs.least, (Date.now() - startedMs) * POLL_SHARE));
    await sleep(pause, undefined, { signal }).catch(() => signal?.throwIfAborted());
  }
}

export const hasEnded = ({ status }: Pick<Look, 'status'>): boolean =>
  status !== 'RUNNING' && status !== 'PENDING_REDRIVE';
