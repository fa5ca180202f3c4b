/** Reads the rows of a request for predictions: of tables in CSV, JSON and libsvm, and of texts to classify. */

import NAMES from '../field-names.json' with { type: 'json' };
import { isExactNumber, isObject, type JsonObject } from '../json.ts';
import { type Cell, cellOf } from '../payload/csv.ts';
import type { DecodeOptions, Payload } from '../types.ts';
import { isMessageList } from '../wire/messages.ts';
import { fieldsOf } from '../wire/wire-format.ts';

/** The rows of one side. */
export interface Table {
  rows: unknown[];
  /** Feature names in the payload itself, in order. */
  names?: string[];
  /** Set if the only row is a list of numbers, which may be rows of one feature each. */
  isFlat?: boolean;
}

export const isScalar = (value: unknown): boolean =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value) || isExactNumber(value);
const isFlatList = (value: unknown): value is unknown[] => Array.isArray(value) && value.every(isScalar);
const areRows = (list: unknown[]): list is unknown[][] =>
  list.length > 0 && list.every((row) => isFlatList(row) && row.length > 0);
const areTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');

/**
 * Returns the rows of a request in a tabular form.
 *
 * @returns `undefined` for other requests
 */
export function requestTable({ kind, value }: Payload, options: DecodeOptions): Table | undefined {
  if (kind === 'csv') {
    const rows = value as Cell[][];
    const [first = []] = rows;
    // A first row of numbers is data, because the caller left the header out, unless pandas numbered the columns: 0, 1, 2.
    const isHeader = first.some((cell) => typeof cell === 'string') || first.every((cell, at) => cell === at);
    return options.csvHeader && isHeader ? { rows: rows.slice(1), names: first.map(String) } : { rows };
  }
  if (kind === 'jsonlines') return { rows: value as unknown[] };
  if (kind !== 'json') return undefined;
  if (isObject(value)) return tableOfObject(value);
  return Array.isArray(value) ? (tableOfList(value) ?? tableOfRecords(value)) : undefined;
}

/**
 * Returns the rows of a request that has rows only if its reply is a list: texts, pairs of texts, columns without an
 * enclosing name, and the lines of a libsvm text.
 */
export function answeredTable({ kind, value, contentType, text = '' }: Payload): Table | undefined {
  if (kind === 'text' && /libsvm/i.test(contentType ?? '')) {
    return { rows: text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [sparseRow(line)])) };
  }
  if (kind !== 'json') return undefined;
  const body = fieldsOf(value);
  const lists = [value, ...NAMES.texts.map((name) => body[name])];
  const texts = lists.find((list) => Array.isArray(list) && list.length > 1 && list.every((item) => isTextual(item)));
  const named = Object.keys(body).length > 1 ? rowsOfColumns(body) : undefined;
  const columns = named?.every((row) => Object.values(row).every(isScalar)) ? named : undefined;
  const rows = texts ?? columns ?? columnOf(body)?.filter(isObject);
  return Array.isArray(rows) && rows.length > 0 ? { rows } : undefined;
}

const isTextual = (item: unknown): boolean => typeof item === 'string' || (areTexts(item) && item.length > 0);

/** Returns the features of `label index:value …`. */
const sparseRow = (line: string): JsonObject =>
  Object.fromEntries(
    line.split(/\s+/).flatMap((pair) => {
      const at = pair.indexOf(':');
      return at < 0 ? [] : [[pair.slice(0, at), cellOf(pair.slice(at + 1))]];
    }),
  );

function tableOfObject(body: JsonObject): Table | undefined {
  for (const name of NAMES.rowLists) {
    if (Array.isArray(body[name])) return { rows: body[name] };
  }
  const split = splitTable(fieldsOf(body.dataframe_split)) ?? splitTable(body) ?? splitTable(fieldsOf(body.data));
  if (split !== undefined) return split;
  for (const name of NAMES.tables) {
    const value = body[name];
    // In `{features: […]}`, unwrap the row, as for SageMaker's built-in algorithms.
    if (name === 'features' && isFlatList(value) && value.length > 0) return { rows: [body] };
    const rows = isObject(value) ? rowsOfColumns(value) : undefined;
    const table = Array.isArray(value) ? tableOfField(value) : rows && { rows };
    if (table !== undefined) return table;
  }
  return undefined;
}

function tableOfField(list: unknown[]): Table | undefined {
  if (list.length > 0 && list.every(isTensor)) return tableOfTensors(list as Tensor[]);
  // Lists of texts alone may be prompts.
  if (areRows(list) && !list.every(areTexts)) return { rows: list };
  if (list.length > 0 && list.every((cell) => typeof cell === 'number')) return { rows: [list], isFlat: true };
  return tableOfRecords(list);
}

const tableOfRecords = (list: unknown[]): Table | undefined =>
  list.length > 0 && list.every(isObject) && !isMessageList(list) ? { rows: list } : undefined;

/** Reads pandas' `{columns, data}`, and Seldon's `{names, ndarray}`, which may lack names. */
export function splitTable(body: JsonObject): Table | undefined {
  const [names, rows] = Array.isArray(body.ndarray) ? [body.names ?? [], body.ndarray] : [body.columns, body.data];
  return Array.isArray(names) && Array.isArray(rows) ? { rows, names: names.map(String) } : undefined;
}

/** Reads a document that is a table by itself: a list of rows, or one row of numbers. */
export function tableOfList(list: unknown[]): Table | undefined {
  if (areRows(list)) return { rows: list };
  return isFlatList(list) && list.some((cell) => typeof cell === 'number') ? { rows: [list], isFlat: true } : undefined;
}

// -------------------------------------------------------------------------------------------------------- columns

/** Returns the cells of a column: a list, or pandas' object with the row numbers as keys. */
export function columnOf(value: unknown): unknown[] | undefined {
  if (Array.isArray(value)) return value;
  if (!isObject(value)) return undefined;
  const names = Object.keys(value);
  return names.length > 0 && names.every((name, at) => name === String(at)) ? Object.values(value) : undefined;
}

/** Turns columns of equal length into one object per row. */
export function rowsOfColumns(columns: JsonObject): JsonObject[] | undefined {
  const lists = Object.entries(columns).map(([name, column]) => [name, columnOf(column)] as const);
  const count = lists[0]?.[1]?.length ?? 0;
  if (count === 0 || !lists.every(([, list]) => list?.length === count)) return undefined;
  return Array.from({ length: count }, (_, index) =>
    Object.fromEntries(lists.map(([name, list]) => [name, list?.[index]])),
  );
}

/** A named tensor of the open inference protocol (KServe v2, Triton). */
export interface Tensor {
  name: string;
  shape: number[];
  data: unknown[];
}

export const isTensor = (value: unknown): boolean =>
  isObject(value) && typeof value.name === 'string' && Array.isArray(value.shape) && Array.isArray(value.data);

/** The tensors' first dimension is the number of rows. A wider tensor has a list per row. */
export function tableOfTensors(tensors: Tensor[]): Table | undefined {
  const rows = tensors[0]?.shape[0] ?? 0;
  if (!Number.isInteger(rows) || rows < 1 || !tensors.every(({ shape }) => shape[0] === rows)) return undefined;
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
