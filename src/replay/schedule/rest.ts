/** The part of a schedule that a run did not send. */
import type { ReplayOptions } from '../options.ts';
import { type EntrySource, schedule } from './timing.ts';

export interface Rest {
  /** Captured time of its first request, epoch ms. */
  timeMs: number;
  /** Repetition of the captures that it begins in, from 0. */
  pass: number;
  /** Requests of the same time that were sent, or could not be. */
  again: number;
}

/**
 * Finds the rest: requests are sent in the order of the schedule.
 *
 * @param skipped requests that could not be sent
 * @returns `undefined` if nothing is left
 */
export async function restOf(
  source: EntrySource,
  options: ReplayOptions,
  { sent, skipped }: { sent: number; skipped: number },
): Promise<Rest | undefined> {
  let left = sent + skipped;
  let rest: Rest | undefined;
  for await (const batch of schedule(source, options, { skipped: () => skipped })) {
    for (const { entry, pass } of batch) {
      const { timeMs } = entry;
      const isSame = rest?.timeMs === timeMs && rest.pass === pass;
      rest = { timeMs, pass, again: isSame ? (rest?.again ?? 0) + 1 : 0 };
      if (left-- === 0) return rest;
    }
  }
  return undefined;
}
