/** Divides a reply into the predictions of the rows that it answers. */
import { isObject, type JsonObject } from '../json.ts';
import type { CsvCell } from '../payload/csv.ts';
import { documentOf, isThere } from '../payload/decode-payload.ts';
import { hasProse, saysWords } from '../prose.ts';
import type { Payload } from '../types.ts';
import { fieldsOf } from '../wire/wire-format.ts';
import { headerOf, mayBeNumbered, namesPrediction } from './csv-header.ts';
import {
  columnOf,
  isScalar,
  isTensor,
  rowsOfColumns,
  splitTable,
  type Tensor,
  tableOfList,
  tableOfTensors,
} from './request-rows.ts';

/** Lists that are the predictions if the object has no other fields. */
const PREDICTION_LISTS = ['prediction', 'outputs', 'results', 'scores', 'probabilities', 'labels', 'data'];
/** Lists with the classes of all rows, next to a list of scores for each row. */
const CLASS_LISTS = ['labels', 'classes'];

/**
 * Returns the predictions without their wrapping. `{probabilities: […]}` and `{score: 1}` keep their names.
 *
 * @param inputs number of rows of the request, if known
 * @param csvHeader whether a CSV may begin with a header
 * @returns `undefined` for a reply that is not a list, which is one prediction
 */
export function predictionsOf({ kind, value }: Payload, inputs?: number, csvHeader = false): unknown[] | undefined {
  if (kind === 'csv') return csvPredictions(value as CsvCell[][], inputs, csvHeader);
  if (kind === 'jsonlines') return value as unknown[];
  const list = Array.isArray(value) ? value : isObject(value) ? listOfObject(value, inputs) : undefined;
  if (list === undefined) return undefined;
  // The list in reply to one row contains its scores, one per class.
  const isOfOne = inputs === 1 && list.length !== 1 && (list.every(isScalar) || list.every(isObject));
  return isOfOne ? [list] : inOrder(list);
}

function listOfObject(value: JsonObject, inputs: number | undefined): unknown[] | undefined {
  const { predictions, outputs } = value;
  if (Array.isArray(predictions)) return predictions;
  const frame = splitTable(value);
  if (frame?.names) return frame.rows.map((row) => named(frame.names as string[], row));
  const framed = rowsOfFrame(value, inputs);
  if (framed !== undefined) return framed;
  // A data frame, columns, or Seldon's data.
  const inner = isObject(predictions) ? predictions : isObject(value.data) ? value.data : outputs;
  if (isObject(inner)) return listOfObject(inner, inputs);
  if (Array.isArray(outputs) && outputs.length > 0 && outputs.every(isTensor))
    return tableOfTensors(outputs as Tensor[])?.rows;
  const isOfRows = inputs !== undefined && inputs > 1;
  const [[name = '', list] = [], ...others] = Object.entries(value).filter(([, item]) => Array.isArray(item));
  if (others.length === 0 && Array.isArray(list)) {
    const isOnly = PREDICTION_LISTS.includes(name) && Object.keys(value).length === 1;
    if (isOnly || (isOfRows && list.length === inputs)) return list;
  }
  if (!isOfRows) return undefined;
  const byRow = columnOf(value);
  return byRow?.length === inputs ? byRow : inColumns(value, inputs);
}

/** Reads pandas' `{column: {"0": …}}`. One column of numbers up to 1 may be the probabilities of classes, and is not read. */
function rowsOfFrame(value: JsonObject, inputs?: number): JsonObject[] | undefined {
  const columns = Object.values(value);
  const rows = columns.every(isObject) ? rowsOfColumns(value) : undefined;
  if (rows === undefined || (inputs === 1 && rows.length > 1)) return undefined;
  const cells = Object.values(columns[0] as JsonObject);
  const areScores = cells.every((cell) => Number(cell) >= 0 && Number(cell) <= 1) && !cells.every(Number.isInteger);
  return columns.length > 1 || !areScores ? rows : undefined;
}

/** @param names of the cells of a row. A row of one cell becomes that cell */
function named(names: readonly string[], row: unknown): unknown {
  if (!Array.isArray(row)) return row;
  return row.length === 1 ? row[0] : Object.fromEntries(row.map((cell, at) => [names[at] ?? String(at), cell]));
}

/** Puts items that name their input by its `index` in the order of the inputs. */
function inOrder(list: unknown[]): unknown[] {
  const sorted = new Array<unknown>(list.length);
  for (const item of list) {
    const index = isObject(item) ? item.index : undefined;
    if (typeof index !== 'number' || !(index in list) || sorted[index] !== undefined) return list;
    sorted[index] = item;
  }
  return sorted;
}

/**
 * Turns `{scores: [a, b], labels: [x, y]}` for two rows into one object per row. Single values and the list of classes
 * are shared by all rows.
 *
 * @returns `undefined` if it is unclear whether a list belongs to the rows or is shared
 */
function inColumns(value: JsonObject, inputs: number): JsonObject[] | undefined {
  const columns = Object.entries(value).map(([name, item]) => [name, columnOf(item) ?? item] as const);
  const scores = columns.find(([, list]) => Array.isArray(list) && list.length === inputs && Array.isArray(list[0]));
  const width = (scores?.[1] as unknown[][] | undefined)?.[0]?.length;
  const ofRows = columns.filter(([, list]) => Array.isArray(list) && list.length === inputs);
  const isOfAll = ([name, list]: readonly [string, unknown]): boolean =>
    CLASS_LISTS.includes(name) && Array.isArray(list) && list.length === width;
  const named = ofRows.filter((column) => column !== scores && !isOfAll(column));
  const classes = columns.find(isOfAll)?.[1] as unknown[] | undefined;
  if (classes?.length === inputs && named.length === 0) {
    // There are as many rows as classes. Only repeated classes show that each belongs to a row.
    return new Set(classes).size < classes.length ? rowsOfColumns(value) : undefined;
  }
  const shared = columns.filter((column) => !Array.isArray(column[1]) || isOfAll(column));
  const own = [...named, ...(scores === undefined ? [] : [scores])];
  if (own.length === 0 || own.length + shared.length < columns.length) return undefined;
  return Array.from({ length: inputs }, (_, index) =>
    Object.fromEntries([...shared, ...own.map(([name, list]) => [name, (list as unknown[])[index]] as const)]),
  );
}

/** Unwraps rows with one column. One line may also contain the answers to all rows (XGBoost), each a list in brackets (its softprob). */
function csvPredictions(all: CsvCell[][], inputs: number | undefined, csvHeader: boolean): unknown[] {
  const names = csvHeader ? headerOf(all, inputs) : undefined;
  const rows = names === undefined ? all : all.slice(1);
  if (names !== undefined && namesPrediction(names)) return rows.map((row) => named(names, row));
  const [line = []] = rows;
  const cells = line.length === 1 && Array.isArray(line[0]) ? line[0] : line;
  if (rows.length === 1 && inputs !== undefined && inputs > 1 && cells.length === inputs) return cells;
  if (rows.length === 1 && line.length > 1 && line.every(Array.isArray)) return line;
  return rows.map((row) => (row.length === 1 ? row[0] : row));
}

/** Whether a reply has rows by its own form, regardless of the request. */
export const hasRows = ({ kind, value }: Payload): boolean =>
  kind === 'csv' || (kind === 'json' && isObject(value) && (isFrame(value) || isFrame(fieldsOf(value.data))));

const isFrame = (value: JsonObject): boolean => (rowsOfFrame(value) ?? splitTable(value)) !== undefined;

/** Whether a reply comes from a tabular model, judged without its request. */
export const isPredictions = (reply: Payload): boolean =>
  hasRows(reply) ||
  reply.kind === 'jsonlines' ||
  (reply.kind === 'json' &&
    (Array.isArray(reply.value)
      ? tableOfList(reply.value) !== undefined
      : isObject(reply.value) && Array.isArray(reply.value.predictions)));

// -------------------------------------------------------------------------------------------------------- unclear

/** Words that no class has. */
const MIN_WORDS = 5;

/**
 * Whether a reply is one text that a classifier would not give, such as a server's message, several lines, or a name
 * with its explanation.
 */
export function isSentence({ kind, value }: Payload): boolean {
  const rows = kind === 'csv' ? (value as CsvCell[][]) : [[value]];
  const [first = []] = rows;
  const text = rows.length === 1 && first.every((cell) => typeof cell === 'string') ? first.join(',').trim() : '';
  return hasProse(text, 2) && (/\n|:\s/.test(text) || saysWords(text, MIN_WORDS));
}

/**
 * Explains why a reply may be one prediction or several, if its request has no known rows. Returns `undefined` if it is
 * clear.
 */
export function whyUnclear(request: Payload | undefined, reply: Payload, csvHeader = false): string | undefined {
  const { kind, value } = reply;
  if (kind === 'csv') {
    const rows = value as CsvCell[][];
    if (mayBeNumbered(rows, csvHeader)) return 'the first row of the reply may be a header of numbers, or a prediction';
    const isNamed = csvHeader && namesPrediction(headerOf(rows));
    const isClear = isNamed || rows.every((row) => row.length === 1 || row.every(Array.isArray));
    return isClear ? undefined : 'a line of the reply has several cells: classes of one input, or several inputs';
  }
  if (documentOf(reply) === undefined || kind === 'event-stream' || hasRows(reply)) return undefined;
  const list = predictionsOf(reply);
  if (list === undefined || list.length < 2) return undefined;
  const isRows = isThere(request)
    ? !mayHave(list.length, request)
    : isObject(value) || !list.some((item) => isScalar(item) || isObject(item));
  return isRows ? undefined : `the reply has ${list.length} items: classes of one input, or several inputs`;
}

/** Whether a request may have this number of inputs. */
function mayHave(inputs: number, { kind, value, contentType, text = '' }: Payload): boolean {
  if (kind === 'binary') return !/image|audio|video/i.test(contentType ?? '');
  if (kind === 'text' || kind === 'raw') return text.trim().split('\n').length === inputs;
  return holdsList(value, inputs, 0);
}

const MAX_DEPTH = 3;

function holdsList(value: unknown, length: number, depth: number): boolean {
  if (depth > MAX_DEPTH) return false;
  if (Array.isArray(value)) return value.length === length || value.some((item) => holdsList(item, length, depth + 1));
  if (!isObject(value)) return false;
  const items = Object.entries(value).filter(([name]) => name !== 'parameters');
  // pandas' rows, or cells of a column, by the names of the rows.
  const isFrame = items.every(([name, item]) => isObject(item) || /^\d+$/.test(name));
  return (isFrame && items.length === length) || items.some(([, item]) => holdsList(item, length, depth + 1));
}
