/**
 * The captures of a cell that a scorer could judge, by their chance to be judged, and the number of good captures among
 * them.
 */

import type { QualityCell, SampleCounts } from '../core/contract/quality.ts';
import type { JudgedStratum } from '../core/statistics/corrected-share.ts';
import { sum } from '../core/values/sum.ts';
import { goodValue } from '../judge/scorers/values.ts';
import type { Scorer } from '../judge/types.ts';
import type { CountedCell } from './counts-store.ts';
import { ERROR_REPLIES } from './objectives.ts';
import { chanceOf, EVERY_CAPTURE } from './sample.ts';

export function stratumOf(
  sample: string,
  { captures: known = 0, values = {} }: SampleCounts,
  isPassing: (value: string) => boolean,
): JudgedStratum {
  const judged = sum(Object.values(values));
  // The counts of a new scorer lack captures that were evaluated earlier. Its sample shows how many there are.
  const few = known < judged ? judged / (sample === EVERY_CAPTURE ? 1 : chanceOf(sample) || 1) : known;
  const passed = sum(Object.entries(values).map(([value, count]) => (isPassing(value) ? count : 0)));
  return { captures: Math.round(few), judged, passed };
}

/**
 * Scorers that an empty reply fails without being asked. Empty replies are a separate stratum that covers every
 * capture.
 */
const FAIL_EMPTY: readonly string[] = ['completeness', 'relevance_to_query'];
/** The stratum of empty replies. */
export const EMPTY = 'empty';

/**
 * Counts the empty replies that fail a scorer without asking it, if it was asked about other replies or if all replies
 * are empty.
 */
export function emptyOf(scorer: string | undefined, cells: readonly Pick<CountedCell, 'cell'>[]): number {
  if (scorer === undefined || !FAIL_EMPTY.includes(scorer)) return 0;
  const [all, empty] = (['all', 'empty'] as const).map((of) =>
    sum(cells.map(({ cell: { replies } }) => replies?.words?.[of] ?? 0)),
  ) as [number, number];
  return empty === all || cells.some(({ cell }) => cell.scorers?.[scorer] !== undefined) ? empty : 0;
}

/**
 * Returns the strata of a subject in a cell, in which `passed` counts the good captures. Returns no strata if no value
 * is good or bad.
 */
export function goodStrata(
  subject: string,
  cell: QualityCell,
  active: readonly Scorer[],
): Record<string, JudgedStratum> {
  if (subject === ERROR_REPLIES) {
    const { captures = 0 } = cell;
    return {
      [EVERY_CAPTURE]: {
        captures,
        judged: captures,
        passed: captures - Math.min(captures, cell.errorReplies ?? 0),
      },
    };
  }
  const known = active.find(({ name }) => name === subject);
  const good = known && goodValue(known);
  if (good === undefined) return {};
  const asked = Object.fromEntries(
    Object.entries(cell.scorers?.[subject] ?? {}).map(([sample, counts]) => [
      sample,
      stratumOf(sample, counts, (value) => value === String(good)),
    ]),
  );
  const empty = emptyOf(subject, [{ cell }]);
  return empty > 0 ? { ...asked, [EMPTY]: { captures: empty, judged: empty, passed: 0 } } : asked;
}
