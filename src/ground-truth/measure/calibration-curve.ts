/** Whether probabilities are true: how often the positive class was found where it was predicted with which probability. */

import { wilson } from '../../core/statistics/share.ts';
import { type CalibrationPoint, figureOf } from './figures.ts';

/** Tenths, as in most reliability diagrams. */
const PARTS = 10;

/**
 * Returns a point for each tenth that has rows.
 *
 * @param scores probabilities of the positive class
 * @param isPositive whether the label of the row is the positive class
 */
export function calibrationCurve(scores: ArrayLike<number>, isPositive: (row: number) => boolean): CalibrationPoint[] {
  const parts = Array.from({ length: PARTS }, () => ({ rows: 0, sum: 0, positives: 0 }));
  for (let row = 0; row < scores.length; row += 1) {
    const score = scores[row] ?? 0;
    const part = parts[Math.min(PARTS - 1, Math.floor(score * PARTS))];
    // A score that is no probability tells nothing here.
    if (part === undefined || score > 1) return [];
    part.rows += 1;
    part.sum += score;
    if (isPositive(row)) part.positives += 1;
  }
  return parts.flatMap(({ rows, sum, positives }) =>
    rows === 0 ? [] : [{ rows, predicted: sum / rows, found: figureOf(wilson(positives, rows), 'no rows') }],
  );
}
