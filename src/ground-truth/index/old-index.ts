/**
 * Reads the index as versions before contract 3 wrote it: each line has up to a thousand predictions in columns. It can be deleted
 * 400 days after the last of these versions, the longest time that an index is kept.
 */
import type { Prediction, PredictionRow } from '../../core/contract/ground-truth.ts';

type Column<T> = (T | null)[] | undefined;

interface OldBlock {
  places: [endpoint: string, variant: string][];
  /** By call, the position in `places`; absent if there is one. */
  at?: number[];
  /** By call; as a text, UUIDs as 16 bytes in base64url. */
  ids: string | string[];
  /** By call; as a text, 16 bytes each in base64url. */
  traces: string | string[];
  /** By call, the difference to the one before. */
  seconds: number[];
  /** By call, the number of its rows; absent if all have one. */
  sizes?: number[];
  rows?: Column<number>;
  values?: Column<NonNullable<Prediction['value']>>;
  scores?: Column<number[]>;
  /** Lists of classes, and by row the position in them. */
  classes?: string[][];
  classesAt?: Column<number>;
  /** By row, two hashes of 11 characters, or spaces. */
  texts?: string;
  groups?: Column<(string | null)[]>;
}

/** 16 bytes in base64url, or two hashes. */
const CHARS = 22;

/** Whether a key of the index is that of an old file. */
export const isOldIndex = (key: string): boolean => /\/(?:new|all)-[^/]*$/.test(key);

/** Returns the predictions of a line. */
export function oldRows(line: string): PredictionRow[] {
  const block = JSON.parse(line) as OldBlock;
  const rows: PredictionRow[] = [];
  let second = 0;
  for (const [call, difference] of block.seconds.entries()) {
    second += difference;
    const [endpoint, variant] = block.places[block.at?.[call] ?? 0] as [string, string];
    const id = typeof block.ids === 'string' ? uuidOf(hexAt(block.ids, call)) : (block.ids[call] as string);
    const traceId =
      typeof block.traces === 'string' ? `tr-${hexAt(block.traces, call)}` : (block.traces[call] as string);
    for (let left = block.sizes?.[call] ?? 1; left > 0; left -= 1) {
      const at = rows.length;
      const row = block.rows?.[at] ?? undefined;
      const groups = block.groups?.[at] ?? undefined;
      const own = row === undefined ? { id } : { id: `${id}_${row}`, row };
      rows.push({
        ...own,
        ...{ endpoint, variant, second, traceId, prediction: predictionAt(block, at) },
        ...(groups && { groups }),
      });
    }
  }
  return rows;
}

function predictionAt({ values, scores, classes, classesAt, texts }: OldBlock, at: number): Prediction {
  const value = values?.[at] ?? undefined;
  const hashes = texts?.slice(at * CHARS, (at + 1) * CHARS).trim();
  const own = { scores: scores?.[at] ?? undefined, classes: classes?.[classesAt?.[at] ?? -1] };
  return {
    ...(value !== undefined && { value }),
    ...(own.scores && { scores: own.scores }),
    ...(own.classes && { classes: own.classes }),
    ...(hashes && { text: [hashes.slice(0, CHARS / 2), hashes.slice(CHARS / 2)] }),
  };
}

const hexAt = (column: string, call: number): string =>
  Buffer.from(column.slice(call * CHARS, (call + 1) * CHARS), 'base64url').toString('hex');

const uuidOf = (hex: string): string => hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
