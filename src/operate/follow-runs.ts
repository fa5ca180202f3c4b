/** Follows runs until all have ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AwsClients } from './aws-clients.ts';
import { type RunProgress, RunWatcher } from './run-progress.ts';

interface FollowOptions {
  clients: Pick<AwsClients, 's3' | 'sfn'>;
  workBucket: string;
  /** Called after each look, with every run. */
  onLook(runs: readonly RunProgress[]): void;
  signal?: AbortSignal | undefined;
  /** Bounds of the time between two looks, which is a fiftieth of the time so far. Default: 1 s and 10 s. */
  pollMs?: { least: number; most: number };
}

const POLL_MS = { least: 1_000, most: 10_000 };
const POLL_SHARE = 0.02;

/**
 * Returns the last look at each run.
 *
 * @throws what the signal was aborted with. The runs go on.
 */
export async function followRuns(
  runs: readonly { name: string; arn: string }[],
  { clients, workBucket, onLook, signal, pollMs = POLL_MS }: FollowOptions,
): Promise<RunProgress[]> {
  const watched = runs.map((run) => ({ watcher: new RunWatcher(clients, workBucket, run), last: undefined as Look }));
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

type Look = RunProgress | undefined;

export const hasEnded = ({ status }: Pick<RunProgress, 'status'>): boolean =>
  status !== 'RUNNING' && status !== 'PENDING_REDRIVE';
