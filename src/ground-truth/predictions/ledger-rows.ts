/**
 * Converts a prediction to rows of the ledger: its id and groups, which are kept as long as labels may arrive, and its
 * value.
 */

import type { Prediction, PredictionRow } from '../../core/contract/ground-truth.ts';
import type { Column, Row } from '../../ledger/tables.ts';
import { predictedName } from '../../quality/fold.ts';
import { predictedNumber } from '../label-value.ts';

/** A prediction as rows of both tables, without the columns of the run's work on its trace; without ids if no labels are expected. */
export type PredictionRows = { inferences: Row<'inferences'>; 'ids/inferences'?: Row<'ids/inferences'> };

/**
 * @param days those of `GROUND_TRUTH`. With 0, the row contains only counted values
 * @param isCounted whether the capture is a table
 */
export function rowsOfPrediction(row: PredictionRow, days: number, isCounted: boolean): PredictionRows {
  const { row: index, endpoint, second, key: maskedBy, id, groups } = row;
  const { value, scores, classes, text: [exact, normalized] = [] } = row.prediction;
  const written = { value: value === undefined ? undefined : String(value), scores, classes };
  const name = value ?? predictedName(written);
  const called = { index, endpoint, time: second * 1000, maskedBy };
  const known = {
    ...called,
    number: name === undefined ? undefined : predictedNumber(name),
    isBoolean: typeof value === 'boolean' || undefined,
    isCounted: isCounted || undefined,
  };
  if (days === 0) return { inferences: { ...known, value: predictedName(written) } };
  return { inferences: { ...known, ...written, exact, normalized }, 'ids/inferences': { ...called, id, groups } };
}

/** The columns that a prediction is made of. */
export const PREDICTED = [
  ...['traceId', 'index', 'endpoint', 'variant', 'time', 'maskedBy'],
  ...['value', 'number', 'isBoolean', 'scores', 'classes', 'exact', 'normalized'],
] as const satisfies readonly Column<'inferences'>[];
type Predicted = Pick<Row<'inferences'>, (typeof PREDICTED)[number]>;

/** Returns the prediction that both rows are of. */
export function predictionRow(
  { id = '', groups }: Pick<Row<'ids/inferences'>, 'id' | 'groups'>,
  row: Predicted,
): PredictionRow {
  const { endpoint = '', variant = '', time = 0, traceId = '', index, maskedBy, ...said } = row;
  const { scores, classes, exact, normalized } = said;
  const text: Prediction['text'] = exact === undefined || normalized === undefined ? undefined : [exact, normalized];
  const prediction = { value: writtenValue(said), scores, classes, text };
  return { id, endpoint, variant, second: time / 1000, traceId, row: index, prediction, groups, key: maskedBy };
}

/** A number is written as a program writes it: `0.50` and `87%` are texts. */
function writtenValue({ value, number, isBoolean }: Predicted): Prediction['value'] {
  if (isBoolean) return value === 'true';
  return value !== undefined && String(number) === value ? number : value;
}
