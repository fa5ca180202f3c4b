/**
 * Measures how long the hourly counts take to read, and the memory: 30 days of a run a minute, with 18 scorers and 3 variants, in an
 * emulated S3. Days that have ended are summed by the product; the days of the present are a line for each run.
 *
 * `--runs N` a day (1,440).
 */
import type { Log } from '../local/python/python-environment.ts';
import { CAPTURES, DAY_MS, SCORERS, TO_MS, VARIANTS, withMonth } from './counts-support/month.ts';
import type { ReadReport } from './counts-support/read.ts';
import { numberFlag } from './support/flags.ts';
import { atMost, type BenchResult, machine, round } from './support/result.ts';

const DAYS = 30;
const [MOST_SECONDS, MOST_MB] = [5, 300];

export default async function bench(log: Log, flags: string[] = []): Promise<BenchResult> {
  const runs = numberFlag(flags, 'runs', 1440);
  return withMonth(log, DAYS, runs, async ({ run, closeSeconds }) => {
    const read = (from: number) => run<ReadReport>('counts-support/read.ts', from, TO_MS);
    const [day, month] = [await read(TO_MS - DAY_MS), await read(TO_MS - DAYS * DAY_MS)];
    const expected = DAYS * runs * VARIANTS.length * CAPTURES;
    return {
      name: 'counts',
      ratio: round(MOST_SECONDS / month.readSeconds),
      ours: {
        '24 hours, s': round(day.readSeconds),
        '30 days, s': round(month.readSeconds),
        'rates of 30 days by day and by variant, s': round(month.ratesSeconds),
        '30 days, peak MB': round(month.peakMb, 0),
        'hours × variants': month.cells,
        'to sum a day, s': round(closeSeconds),
      },
      peer: { 's at most': MOST_SECONDS, 'MB at most': MOST_MB },
      machine: machine(),
      versions: { node: process.version },
      checks: [
        atMost('captures that are missing or counted twice', Math.abs(month.captures - expected), 0),
        atMost('24 hours: seconds', day.readSeconds + day.ratesSeconds, MOST_SECONDS),
        atMost('30 days: seconds', month.readSeconds + month.ratesSeconds, MOST_SECONDS),
        atMost('30 days: peak memory of the process, MB', month.peakMb, MOST_MB),
      ],
      notes: [
        `${runs} runs a day, ${CAPTURES} captures of each of ${VARIANTS.length} variants a run, ${SCORERS.length} scorers`,
      ],
    };
  });
}
