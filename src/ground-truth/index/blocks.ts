/**
 * Up to a thousand predictions as one line of JSON, in columns: gzip makes some 45 bytes of a prediction with a UUID. Rows of one
 * call, which are next to each other, share its id, trace and time.
 */
import type { Prediction, PredictionRow } from '../../core/contract/ground-truth.ts';

/** A block of the index. Only the ids are decoded, until a row is asked for. */
export interface IndexBlock {
  ids: readonly string[];
  rowAt(index: number): PredictionRow;
}

interface StoredBlock {
  /** Endpoint and variant. */
  places: [endpoint: string, variant: string][];
  /** By call, the place; absent if there is one. */
  at?: number[];
  /** By call; as a text, UUIDs with 22 characters each. */
  ids: string | string[];
  /** By call; as a text, ids of 32 hex digits with 22 characters each. */
  traces: string | string[];
  /** By call, the difference to the one before. */
  seconds: number[];
  /** By call, how many rows it has; absent if all have one. */
  sizes?: number[];
  /** By row; a column is absent if no row has a value, and `null` stands for none. */
  rows?: (number | null)[];
  values?: (NonNullable<Prediction['value']> | null)[];
  scores?: (number[] | null)[];
  /** Lists of classes, and by row the position in them. */
  classes?: string[][];
  classesAt?: (number | null)[];
  /** 22 characters for each row: two hashes, or spaces. */
  texts?: string;
  groups?: ((string | null)[] | null)[];
}

const PACKED_BYTES = 16;
/** The same as base64url. */
const PACKED_CHARS = 22;
const HASH_CHARS = PACKED_CHARS / 2;
const NO_TEXT = ' '.repeat(PACKED_CHARS);
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const TRACE = /^tr-[0-9a-f]{32}$/;

const isSameCall = (a: PredictionRow | undefined, b: PredictionRow): boolean =>
  a?.row !== undefined && b.row !== undefined && a.traceId === b.traceId;

const callId = ({ id, row }: PredictionRow): string => (row === undefined ? id : id.slice(0, -`_${row}`.length));

/** @param rows those of a call, and so of a trace, are next to each other. The id of one with a position ends with `_{position}`. */
export function encodeBlock(rows: readonly PredictionRow[]): string {
  const calls: PredictionRow[] = [];
  const sizes: number[] = [];
  for (const [index, row] of rows.entries()) {
    if (isSameCall(rows[index - 1], row)) sizes[sizes.length - 1] = (sizes.at(-1) ?? 0) + 1;
    else {
      calls.push(row);
      sizes.push(1);
    }
  }
  const places = new Dictionary<[string, string]>();
  const classes = new Dictionary<string[]>();
  const at = calls.map(({ endpoint, variant }) => places.add([endpoint, variant]));
  const classesAt = rows.map(({ prediction }) => (prediction.classes ? classes.add(prediction.classes) : null));
  const hasTexts = rows.some(({ prediction }) => prediction.text !== undefined);
  const block: StoredBlock = {
    places: places.items,
    ...(places.items.length > 1 && { at }),
    ids: packed(calls.map(callId), UUID),
    traces: packed(
      calls.map(({ traceId }) => traceId),
      TRACE,
    ),
    seconds: calls.map(({ second }, index) => second - (calls[index - 1]?.second ?? 0)),
    ...(calls.length < rows.length && { sizes }),
    ...column(
      'rows',
      rows.map(({ row }) => row),
    ),
    ...column(
      'values',
      rows.map(({ prediction }) => prediction.value),
    ),
    ...column(
      'scores',
      rows.map(({ prediction }) => prediction.scores),
    ),
    ...(classes.items.length > 0 && { classes: classes.items, classesAt }),
    ...(hasTexts && { texts: rows.map(({ prediction }) => prediction.text?.join('') ?? NO_TEXT).join('') }),
    ...column(
      'groups',
      rows.map(({ groups }) => groups),
    ),
  };
  return JSON.stringify(block);
}

/** Values that repeat, by their position. */
class Dictionary<T> {
  readonly items: T[] = [];
  readonly #known = new Map<string, number>();

  add(item: T): number {
    const key = JSON.stringify(item);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    this.#known.set(key, this.items.length);
    return this.items.push(item) - 1;
  }
}

const column = <Name extends string, T>(name: Name, values: (T | undefined)[]): Partial<Record<Name, (T | null)[]>> =>
  values.every((value) => value === undefined)
    ? {}
    : ({ [name]: values.map((value) => value ?? null) } as Record<Name, (T | null)[]>);

/** Joins ids that are 16 bytes in hex; others stay as they are. */
function packed(ids: string[], form: RegExp): string | string[] {
  if (!ids.every((id) => form.test(id))) return ids;
  const bytes = Buffer.from(ids.join('').replace(/tr-|-/g, ''), 'hex');
  return ids.map((_, index) => bytes.toString('base64url', index * PACKED_BYTES, (index + 1) * PACKED_BYTES)).join('');
}

const hexAt = (text: string, index: number): string =>
  Buffer.from(text.slice(index * PACKED_CHARS, (index + 1) * PACKED_CHARS), 'base64url').toString('hex');

function uuidAt(ids: string, index: number): string {
  const hex = hexAt(ids, index);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * Decodes a block.
 *
 * @param leaveOut gets a short key of each call's trace, the same in all blocks, and says whether its rows are left out
 */
export function decodeBlock(line: string, leaveOut?: (traceKey: string) => boolean): IndexBlock {
  const block = JSON.parse(line) as StoredBlock;
  const ids: string[] = [];
  /** By kept row, its position in the columns, and its call. */
  const kept: { row: number; call: number }[] = [];
  let row = 0;
  for (let call = 0; call < block.seconds.length; call += 1) {
    const end = row + (block.sizes?.[call] ?? 1);
    if (leaveOut?.(traceKeyAt(block.traces, call))) {
      row = end;
      continue;
    }
    const id = typeof block.ids === 'string' ? uuidAt(block.ids, call) : (block.ids[call] as string);
    for (; row < end; row += 1) {
      const position = block.rows?.[row] ?? null;
      ids.push(position === null ? id : `${id}_${position}`);
      kept.push({ row, call });
    }
  }
  let seconds: number[] | undefined;
  return {
    ids,
    rowAt: (index) => {
      const at = kept[index];
      if (at === undefined) throw new RangeError(`the block has ${kept.length} rows, and none with the index ${index}`);
      seconds ??= sumsOf(block.seconds);
      return rowOf(block, at, ids[index] as string, seconds[at.call] as number);
    },
  };
}

const sumsOf = (differences: readonly number[]): number[] => {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
};

/** 72 of the 128 bits: as short a text is a copy, and does not keep the whole column in memory. */
const KEY_CHARS = 12;
const traceKeyAt = (traces: string | string[], call: number): string =>
  typeof traces === 'string'
    ? traces.slice(call * PACKED_CHARS, call * PACKED_CHARS + KEY_CHARS)
    : traceKey(traces[call] as string);

/** Returns the key of a trace as `decodeBlock` passes it. */
export const traceKey = (traceId: string): string =>
  TRACE.test(traceId) ? Buffer.from(traceId.slice(3), 'hex').toString('base64url').slice(0, KEY_CHARS) : traceId;

function rowOf(
  { places, at, traces, rows, values, scores, classes, classesAt, texts, groups }: StoredBlock,
  { row, call }: { row: number; call: number },
  id: string,
  second: number,
): PredictionRow {
  const [endpoint, variant] = places[at?.[call] ?? 0] as [string, string];
  const position = rows?.[row] ?? null;
  const value = values?.[row] ?? null;
  const ownScores = scores?.[row] ?? null;
  const ownClasses = classes?.[classesAt?.[row] ?? -1];
  const text = texts?.slice(row * PACKED_CHARS, (row + 1) * PACKED_CHARS) ?? NO_TEXT;
  const ownGroups = groups?.[row] ?? null;
  return {
    id,
    endpoint,
    variant,
    second,
    traceId: typeof traces === 'string' ? `tr-${hexAt(traces, call)}` : (traces[call] as string),
    ...(position !== null && { row: position }),
    prediction: {
      ...(value !== null && { value }),
      ...(ownScores !== null && { scores: ownScores }),
      ...(ownClasses && { classes: ownClasses }),
      ...(text !== NO_TEXT && { text: [text.slice(0, HASH_CHARS), text.slice(HASH_CHARS)] as [string, string] }),
    },
    ...(ownGroups !== null && { groups: ownGroups }),
  };
}
