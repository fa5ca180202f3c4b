/** Finds items in texts that lists cut into pieces: the deltas of a stream, the tokens of `logprobs`. */

import { type Item, merged } from './find.ts';

/** An object or a list, by whose keys texts are replaced. */
export type Holder = Record<string | number, unknown>;

/** An item in several pieces: at the first one all of what was captured, nothing at the others. */
export interface Part extends Item {
  captured?: string;
}

/** The parts of items by the holder and the key of each piece. */
export type Pieces = Map<Holder, Map<string | number, Part[]>>;

/** A text in a list, with the place where it stands. */
interface Leaf {
  holder: Holder;
  key: string | number;
  text: string;
}

/** All that is read of a name, since it is read for each value: its end, as in `customer.contact.phone`. */
export const MAX_NAME_CHARS = 100;
/** Outside of streams and CSV, texts that are longer on average are no pieces. */
const PIECE_CHARS = 64;

/**
 * @param itemsIn finds the items of a text
 * @param isCut whether the texts of lists are pieces, whatever their length
 */
export function findPieces(value: unknown, itemsIn: (text: string) => Item[], isCut: boolean): Pieces {
  const pieces: Pieces = new Map();
  for (const leaves of leavesIn(value)) {
    const whole = leaves.length > 1 ? leaves.map(({ text }) => text).join('') : '';
    if (whole === '' || (!isCut && whole.length > leaves.length * PIECE_CHARS)) continue;
    const items = merged(itemsIn(whole));
    let next = 0;
    let from = 0;
    for (const { holder, key, text } of leaves) {
      const to = from + text.length;
      const parts: Part[] = [];
      for (let item = items[next]; item !== undefined && item.start < to; item = items[next]) {
        const captured = item.start < from ? '' : whole.slice(item.start, item.end);
        parts.push({ ...item, start: Math.max(0, item.start - from), end: Math.min(to, item.end) - from, captured });
        // The next piece has the rest of it.
        if (item.end > to) break;
        next += 1;
      }
      if (parts.length > 0) pieces.set(holder, (pieces.get(holder) ?? new Map()).set(key, parts));
      from = to;
    }
  }
  return pieces;
}

/** Whether the cells of a row are text that commas cut. */
const hasWords = (row: unknown): boolean =>
  Array.isArray(row) && row.some((cell) => typeof cell === 'string' && cell.includes(' '));

/** Returns the texts within lists by their path, without the places in the lists, but for the rows of a table. */
function leavesIn(value: unknown): Iterable<Leaf[]> {
  const lists = new Map<string, Leaf[]>();
  const collect = (holder: Holder, key: string | number, path: string, isListed: boolean): void => {
    const inner = holder[key];
    if (typeof inner === 'string') {
      if (!isListed) return;
      const leaves = lists.get(path) ?? [];
      lists.set(path, leaves);
      leaves.push({ holder, key, text: inner });
    } else if (Array.isArray(inner)) {
      const isTable = inner.some(Array.isArray);
      const listed = `${path}[]`;
      for (let at = 0; at < inner.length; at += 1) {
        if (isTable && !hasWords(inner[at])) continue;
        collect(inner as never, at, isTable ? `${path}[${at}]` : listed, true);
      }
    } else if (typeof inner === 'object' && inner !== null) {
      for (const name of Object.keys(inner)) {
        collect(inner as Holder, name, `${path}.${name.slice(-MAX_NAME_CHARS)}`, isListed);
      }
    }
  };
  collect({ value }, 'value', '', false);
  return lists.values();
}
