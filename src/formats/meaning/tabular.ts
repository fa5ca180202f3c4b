/** Interprets tabular requests and replies as inferences: one per row, with features and prediction. */

import { isExactNumber, isObject, type JsonObject } from '../json.ts';
import type { Cell } from '../payload/csv.ts';
import { isThere } from '../payload/decode-payload.ts';
import type { DecodeOptions, Inferences, Payload } from '../types.ts';
import { listInferences } from './inferences.ts';

/**
 * Maximum number of inferences that are listed. Each becomes a span of about 600 bytes: 10,000 are 6 MB, which still fits
 * one request to MLflow. The rest stays in the payload, with a note.
 */
const MAX_ROWS = 10_000;

/** The rows of one side. */
interface Table {
  rows: unknown[];
  /** Feature names in the payload itself, in order. */
  names?: string[];
}

const isScalar = (value: unknown): boolean =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value) || isExactNumber(value);
const isFlatList = (value: unknown): value is unknown[] => Array.isArray(value) && value.every(isScalar);

// -------------------------------------------------------------------------------------------------------- request

/** Names of the rows in requests for predictions. */
const ROW_LISTS = ['instances', 'dataframe_records', 'records', 'rows'] as const;

function tableOfObject(body: JsonObject): Table | undefined {
  for (const name of ROW_LISTS) {
    if (Array.isArray(body[name])) return { rows: body[name] };
  }
  const split = isObject(body.dataframe_split) ? body.dataframe_split : body;
  if (Array.isArray(split.columns) && Array.isArray(split.data)) {
    return { rows: split.data, names: split.columns.map(String) };
  }
  if (Array.isArray(body.inputs) && body.inputs.length > 0) {
    if (body.inputs.every(isTensor)) return tableOfTensors(body.inputs as Tensor[]);
    if (body.inputs.every((row) => isFlatList(row) && row.some((cell) => typeof cell === 'number')))
      return { rows: body.inputs };
    if (body.inputs.every((cell) => typeof cell === 'number')) return { rows: [body.inputs] };
  }
  if (isFlatList(body.features) && body.features.length > 0) return { rows: [body] };
  return undefined;
}

/** A named tensor of the open inference protocol (KServe v2, Triton). */
interface Tensor {
  name: string;
  shape: number[];
  data: unknown[];
}

const isTensor = (value: unknown): boolean =>
  isObject(value) && typeof value.name === 'string' && Array.isArray(value.shape) && Array.isArray(value.data);

/** The tensors' first dimension is the number of rows. A wider tensor has a list per row. */
function tableOfTensors(tensors: Tensor[]): Table | undefined {
  const rows = tensors[0]?.shape[0];
  if (
    typeof rows !== 'number' ||
    rows < 1 ||
    !Number.isInteger(rows) ||
    !tensors.every((tensor) => tensor.shape[0] === rows)
  )
    return undefined;
  const columns = tensors.map((tensor) => {
    const data = tensor.data.flat(Number.POSITIVE_INFINITY);
    return { name: tensor.name, data, width: data.length / rows };
  });
  if (!columns.every(({ width }) => Number.isInteger(width) && width > 0)) return undefined;
  const row = (index: number): JsonObject =>
    Object.fromEntries(
      columns.map(({ name, data, width }) => [
        name,
        width === 1 ? data[index] : data.slice(index * width, (index + 1) * width),
      ]),
    );
  return { rows: Array.from({ length: rows }, (_, index) => row(index)) };
}

/** Reads a document that is a table by itself: a list of rows, or one row of numbers. */
function tableOfList(list: unknown[]): Table | undefined {
  if (list.length === 0) return undefined;
  if (list.every((row) => isFlatList(row) && row.length > 0)) return { rows: list };
  if (list.every((cell) => isScalar(cell)) && list.some((cell) => typeof cell === 'number')) return { rows: [list] };
  return undefined;
}

function requestTable(payload: Payload, options: DecodeOptions): Table | undefined {
  const { kind, value } = payload;
  if (kind === 'csv') {
    const rows = value as Cell[][];
    return options.csvHeader ? { rows: rows.slice(1), names: (rows[0] ?? []).map(String) } : { rows };
  }
  if (kind === 'jsonlines') return { rows: value as unknown[] };
  if (kind !== 'json') return undefined;
  if (isObject(value)) return tableOfObject(value);
  return Array.isArray(value) ? tableOfList(value) : undefined;
}

/** Unwraps `{features: […]}` and `{data: {features: {values: […]}}}` (SageMaker's built-in algorithms). */
function cellsOf(row: unknown): unknown {
  if (!isObject(row)) return row;
  const features = row.features ?? (isObject(row.data) ? row.data.features : undefined);
  if (isObject(features) && Array.isArray(features.values)) return features.values;
  return features ?? row;
}

/** Names the features, by position where there is no name. */
function featuresOf(row: unknown, names: readonly string[]): JsonObject {
  const cells = cellsOf(row);
  if (isObject(cells)) return cells;
  const list = Array.isArray(cells) ? cells : [cells];
  return Object.fromEntries(list.map((cell, position) => [names[position] ?? String(position), cell]));
}

// ---------------------------------------------------------------------------------------------------------- reply

const PREDICTION_LISTS = [
  'predictions',
  'prediction',
  'outputs',
  'results',
  'scores',
  'probabilities',
  'labels',
] as const;

/** Returns predictions without their wrapping. `{probabilities: […]}` and `{score: 1}` keep their names. */
function predictionsOf(payload: Payload, inputs: number | undefined): unknown[] {
  const { kind, value } = payload;
  if (kind === 'csv') return csvPredictions(value as Cell[][], inputs);
  if (kind === 'jsonlines') return value as unknown[];
  if (Array.isArray(value)) return inputs === 1 && value.length !== 1 && value.every(isScalar) ? [value] : value;
  if (!isObject(value)) return [value];
  for (const name of PREDICTION_LISTS) {
    const list = value[name];
    if (!Array.isArray(list)) continue;
    if (list.length > 0 && list.every(isTensor)) return tableOfTensors(list as Tensor[])?.rows ?? [value];
    const isOnly = name === 'predictions' || Object.keys(value).length === 1;
    if (!isOnly) break;
    // A flat list in reply to one row contains the scores of that row, one per class.
    return inputs === 1 && list.length !== 1 && list.every(isScalar) ? [list] : list;
  }
  return inColumns(value, inputs) ?? [value];
}

/** Unwraps rows with one column. One line may also contain the answers to all rows (XGBoost). */
function csvPredictions(rows: Cell[][], inputs: number | undefined): unknown[] {
  const only = rows.length === 1 ? (rows[0] as Cell[]) : undefined;
  if (only !== undefined && inputs !== undefined && inputs > 1 && only.length === inputs) return only;
  return rows.map((row) => (row.length === 1 ? row[0] : row));
}

/** Turns `{scores: [a, b], labels: [x, y]}` for two rows into one object per row. */
function inColumns(value: JsonObject, inputs: number | undefined): JsonObject[] | undefined {
  if (inputs === undefined || inputs < 2) return undefined;
  const columns = Object.entries(value);
  if (columns.length === 0 || !columns.every(([, column]) => Array.isArray(column) && column.length === inputs))
    return undefined;
  return Array.from({ length: inputs }, (_, index) =>
    Object.fromEntries(columns.map(([name, column]) => [name, (column as unknown[])[index]])),
  );
}

/** Whether a reply is that of a tabular model, judged without its request. */
const isPredictions = ({ kind, value }: Payload): boolean =>
  kind === 'csv' ||
  kind === 'jsonlines' ||
  (kind === 'json' &&
    ((isObject(value) && Array.isArray(value.predictions)) ||
      (Array.isArray(value) && tableOfList(value) !== undefined)));

// ------------------------------------------------------------------------------------------------------ inferences

/**
 * Interprets an exchange as inferences, one per row.
 *
 * @param request `undefined` when it was not captured.
 * @param reply `undefined` when it was not captured, or is an error.
 * @param baseId `inferenceId`, else `eventId`.
 * @param notes collects facts that a reader should know.
 * @returns `undefined` when the exchange is not tabular.
 */
export function tabularInferences(
  request: Payload | undefined,
  reply: Payload | undefined,
  baseId: string | undefined,
  options: DecodeOptions,
  notes: string[],
): Inferences | undefined {
  const table = isThere(request) ? requestTable(request, options) : undefined;
  if (table === undefined) {
    if (isThere(request) && reply?.kind !== 'csv') return undefined;
    if (!isThere(reply) || !isPredictions(reply)) return undefined;
  }
  const inputs = table?.rows.length;
  const predictions = isThere(reply) ? predictionsOf(reply, inputs) : undefined;
  const outputs = predictions?.length;
  const count = Math.max(inputs ?? 0, outputs ?? 0);
  if (count === 0) return undefined;
  const names = options.featureNames?.length ? options.featureNames : (table?.names ?? []);
  checkNames(table, options, notes);
  const mismatch = inputs !== undefined && outputs !== undefined && inputs !== outputs && { inputs, outputs };
  return listInferences({ count, most: MAX_ROWS, what: 'inferences', baseId, mismatch, notes }, (index) => ({
    ...(inputs !== undefined && index < inputs ? { features: featuresOf(table?.rows[index], names) } : {}),
    ...(predictions !== undefined && index < predictions.length ? { prediction: predictions[index] } : {}),
  }));
}

function checkNames(table: Table | undefined, options: DecodeOptions, notes: string[]): void {
  const expected = options.featureNames?.length;
  const first = cellsOf(table?.rows[0]);
  if (expected === undefined || expected === 0 || !Array.isArray(first) || first.length === expected) return;
  notes.push(`${expected} feature names are set, the first row has ${first.length} features`);
}
