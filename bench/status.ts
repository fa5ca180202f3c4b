/**
 * Measures `status` over 24 hours and the page over 30 days, with the 30 days before to compare with: a run a minute, 18 scorers and 3
 * variants, in an emulated S3.
 *
 * `--runs N` a day (1,440).
 */
import type { Log } from '../local/python/python-environment.ts';
import { CAPTURES, DAY_MS, SCORERS, TO_MS, VARIANTS, withMonth } from './counts-support/month.ts';
import type { AskReport } from './status-support/ask.ts';
import { numberFlag } from './support/flags.ts';
import { atMost, type BenchResult, machine, round } from './support/result.ts';

const DAYS = 30;
const [MOST_SECONDS, MOST_MB, MOST_BYTES] = [5, 300, 1_500_000];

export default async function bench(log: Log, flags: string[] = []): Promise<BenchResult> {
  const runs = numberFlag(flags, 'runs', 1440);
  return withMonth(log, 2 * DAYS, runs, async ({ run }) => {
    const status = await run<AskReport>('status-support/ask.ts', 'status', TO_MS - DAY_MS, TO_MS);
    const page = await run<AskReport>('status-support/ask.ts', 'page', TO_MS - DAYS * DAY_MS, TO_MS);
    return {
      name: 'status',
      ratio: round(MOST_SECONDS / Math.max(status.seconds, page.seconds)),
      ours: { 'status, s': round(status.seconds), 'page, s': round(page.seconds), 'page, bytes': page.pageBytes },
      peer: { 's at most': MOST_SECONDS, 'MB at most': MOST_MB, 'bytes at most': MOST_BYTES },
      machine: machine(),
      versions: { node: process.version },
      checks: [
        atMost('captures that are missing', runs * VARIANTS.length * CAPTURES - status.captures, 0),
        atMost('status over 24 hours: seconds', status.seconds, MOST_SECONDS),
        atMost('status over 24 hours: peak MB', status.peakMb, MOST_MB),
        atMost('page over 30 days: seconds', page.seconds, MOST_SECONDS),
        atMost('page over 30 days: peak MB', page.peakMb, MOST_MB),
        atMost('page over 30 days: bytes of HTML', page.pageBytes, MOST_BYTES),
      ],
      notes: [
        `${runs} runs a day, ${CAPTURES} captures of ${VARIANTS.length} variants a run, ${SCORERS.length} scorers`,
      ],
    };
  });
}
