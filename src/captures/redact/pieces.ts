/** Finds items in texts that lists cut into pieces: the deltas of a stream, the tokens of `logprobs`. */

import { type Item, merged } from './find.ts';

/** An object or a list whose texts are replaced by key. */
export type Holder = Record<string | number, unknown>;

/** A part of an item that is in several pieces. The first part has all captured characters of the item, each other part has no characters. */
export interface Part extends Item {
  captured?: string;
  /** The captured characters in the first piece, if the pieces may be separate texts. */
  first?: string | false;
}

/** The parts of items by the holder and the key of each piece. */
export type Pieces = Map<Holder, Map<string | number, Part[]>>;

/** Whether all texts of a list are pieces of a longer text, or only the texts without a whole item. */
export type Cut = 'surely' | 'maybe';

/** Whether a field has this name for the tokens of a text. */
export const isToken = (name: string): boolean => name === 'token' || name === 'tokens';

/** A text in a list, with the place where it stands. */
interface Leaf {
  holder: Holder;
  key: string | number;
  text: string;
  cut: Cut;
  /** The whole items of this text that are still ahead, in reverse order. Absent until they are needed. */
  own?: Item[];
  parts: Part[];
}

/** Characters at the end of a name that are read, as in `customer.contact.phone`. The limit bounds the time, since each value has a name. */
export const MAX_NAME_CHARS = 100;
/** Outside of streams and CSV, texts that are longer on average are not pieces. */
const PIECE_CHARS = 64;

/**
 * Finds the items in the joined texts of lists, and adds their parts to `pieces`.
 *
 * @param itemsIn finds the items of a text
 * @param cut for texts of any length; if absent, only short texts may be pieces. Tokens always are pieces
 */
export function findPieces(pieces: Pieces, value: unknown, itemsIn: (text: string) => Item[], cut?: Cut): void {
  // Two addresses in a list are not pieces of a longer address.
  const hasOwn = ([leaf, part]: [Leaf, Part]): boolean => {
    leaf.own ??= merged(itemsIn(leaf.text)).reverse();
    while ((leaf.own.at(-1)?.end ?? Number.POSITIVE_INFINITY) <= part.start) leaf.own.pop();
    return (leaf.own.at(-1)?.start ?? Number.POSITIVE_INFINITY) < part.end;
  };
  for (const leaves of leavesIn(value, cut)) {
    const whole = leaves.length > 1 ? leaves.map(({ text }) => text).join('') : '';
    if (whole === '' || (cut === undefined && whole.length > leaves.length * PIECE_CHARS)) continue;
    const items = merged(itemsIn(whole));
    let next = 0;
    let from = 0;
    let parts: [Leaf, Part][] = [];
    for (const leaf of leaves) {
      const to = from + leaf.text.length;
      for (let item = items[next]; item !== undefined && item.start < to; item = items[next]) {
        const captured = item.start < from ? '' : whole.slice(item.start, item.end);
        const [start, end] = [Math.max(0, item.start - from), Math.min(to, item.end) - from];
        const first = leaf.cut === 'maybe' && captured !== '' && item.end > to && whole.slice(item.start, to);
        parts.push([leaf, { ...item, start, end, captured, first }]);
        // The next piece has the rest of the item.
        if (item.end > to) break;
        if (leaf.cut === 'surely' || !parts.some(hasOwn)) for (const [of, part] of parts) of.parts.push(part);
        parts = [];
        next += 1;
      }
      from = to;
    }
    for (const { holder, key, parts: ofLeaf } of leaves) {
      if (ofLeaf.length > 0) pieces.set(holder, (pieces.get(holder) ?? new Map()).set(key, ofLeaf));
    }
  }
}

/** Whether the cells of a row are a text that was split at its commas. */
const hasWords = (row: unknown): boolean =>
  Array.isArray(row) && row.some((cell) => typeof cell === 'string' && cell.includes(' '));

/** Groups the texts within lists by their path. A path has no list indexes, except for the rows of a table. */
function leavesIn(value: unknown, cut?: Cut): Iterable<Leaf[]> {
  const lists = new Map<number | undefined, Leaf[]>();
  const paths = new Map<string, number>();
  // A path is a number, since a path of long names would be read again for each value. It begins at a list, because only lists have pieces.
  const pathOf = (path: number | undefined, name: string | number): number => {
    const inner = `${path ?? `- ${paths.size}`} ${name}`;
    return paths.get(inner) ?? paths.set(inner, paths.size + 1).size;
  };
  const collect = (holder: Holder, key: string | number, path?: number, listed?: Cut): void => {
    const inner = holder[key];
    if (typeof inner === 'string') {
      // A JSON document is not a piece of a longer text. It is masked separately.
      if (listed === undefined || (listed === 'maybe' && /^[[{].*[\]}]$/s.test(inner))) return;
      const leaves = lists.get(path) ?? [];
      lists.set(path, leaves);
      leaves.push({ holder, key, text: inner, cut: listed, parts: [] });
    } else if (Array.isArray(inner)) {
      const isTable = inner.some(Array.isArray);
      const items = pathOf(path, '[]');
      for (let at = 0; at < inner.length; at += 1) {
        if (isTable && !hasWords(inner[at])) continue;
        collect(inner as never, at, isTable ? pathOf(path, at) : items, listed ?? 'maybe');
      }
    } else if (typeof inner === 'object' && inner !== null) {
      for (const name of Object.keys(inner)) {
        if (typeof (inner as Holder)[name] === 'number') continue;
        const inside = isToken(name) ? 'surely' : listed;
        collect(inner as Holder, name, inside && pathOf(path, name.slice(-MAX_NAME_CHARS)), inside);
      }
    }
  };
  collect({ value }, 'value', undefined, cut);
  return lists.values();
}
