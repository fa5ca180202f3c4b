/** Processes a chunk when the stack has room for one more function. Waiting is done by the state machine, which costs nothing. */
import type { ChunkProgress, ChunkRequest } from '../contract/payloads.ts';
import type { Gate } from '../gate/gate.ts';
import { JudgePaused } from '../judge/errors.ts';

/** A wait is up to this share longer, so that chunks that were sent away together do not return together. */
const JITTER = 0.25;
const LONGEST_WAIT_SECONDS = 900;

/** Returns the progress of a chunk that was not processed now, and is to be processed after a while. */
export function waiting({ progress }: Pick<ChunkRequest, 'progress'>, waitSeconds: number): ChunkProgress {
  return { bounds: progress?.bounds ?? [], kills: progress?.kills ?? 0, more: true, waitSeconds };
}

/** Returns for how long to wait for a judge that is paused. */
export function secondsOf({ retryAfterMs = 0 }: JudgePaused): number {
  const seconds = Math.min(LONGEST_WAIT_SECONDS, Math.max(1, retryAfterMs / 1000));
  return Math.ceil(seconds * (1 + JITTER * Math.random()));
}

/** Does the work, unless there is no seat; or until the judge is paused, which the work reports by its error. */
export async function inGate<T>(
  { slots }: Gate,
  request: ChunkRequest,
  work: () => Promise<T>,
): Promise<T | ChunkProgress> {
  const entered = (await slots?.enter(request.progress?.waitSeconds)) ?? 'in';
  if (entered !== 'in') return waiting(request, entered.waitSeconds);
  try {
    return await work();
  } catch (error) {
    if (error instanceof JudgePaused) return waiting(request, secondsOf(error));
    throw error;
  } finally {
    await slots?.leave();
  }
}
