/** Whether probabilities are true: how often the positive class was found where it was predicted with which probability. */

import { wilson } from '../../core/statistics/share.ts';
import { type CalibrationPoint, figureOf } from './figures.ts';

/** Tenths, as in most reliability diagrams. */
const BINS = 10;

/**
 * Returns a point for each tenth that has rows.
 *
 * @param scores probabilities of the positive class
 * @param isPositive whether the label of the row is the positive class
 */
export function calibrationCurve(scores: ArrayLike<number>, isPositive: (row: number) => boolean): CalibrationPoint[] {
  const bins = Array.from({ length: BINS }, () => ({ rows: 0, sum: 0, positives: 0 }));
  for (let row = 0; row < scores.length; row += 1) {
    const score = scores[row] ?? 0;
    const bin = bins[Math.min(BINS - 1, Math.floor(score * BINS))];
    // A score that is no probability tells nothing here.
    if (bin === undefined || score > 1) return [];
    bin.rows += 1;
    bin.sum += score;
    if (isPositive(row)) bin.positives += 1;
  }
  return bins.flatMap(({ rows, sum, positives }) =>
    rows === 0 ? [] : [{ rows, predicted: sum / rows, found: figureOf(wilson(positives, rows), 'no rows') }],
  );
}
