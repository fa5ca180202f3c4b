/** Finds personal data and secrets in a text. */

import type { Form } from './form.ts';
import { KINDS, type Kind } from './kinds.ts';
import { numbersIn, type Run } from './numbers.ts';
import type { Word } from './words.ts';

/** A part of a text, from `start` to before `end`. */
export interface Range {
  start: number;
  end: number;
}

/** An item in a text. */
export interface Item extends Range {
  /** Of the kind, the field or the pattern. */
  name: string;
  /** The normalised value. It is the personal data itself: never log it. */
  value: string;
}

type NamedForm = Form & { name: Kind };

/** A value of a field is no longer. */
const MAX_VALUE_CHARS = 200;
/** Characters before the first digit of a number, such as "(+". */
const MAX_LEAD = 3;
/** What stands between two items of a list. */
const BETWEEN = /^[\s,;/|&+]{1,4}(?:\p{L}{1,5}[\s:.]{1,2})?\(?$/u;

/** Returns the forms of kinds, in the order of `KINDS`. */
export const formsOf = (kinds: readonly Kind[]): NamedForm[] =>
  (Object.entries(KINDS) as [Kind, readonly Form[]][]).flatMap(([name, forms]) =>
    kinds.includes(name) ? forms.map((form) => ({ ...form, name })) : [],
  );

/**
 * Returns every item in the order of the forms. The time is linear in the length: look-behinds keep a pattern from beginning within a
 * run of characters that it has read.
 *
 * @param told what the name of the text's field announces. It counts only in short texts, which are values
 */
export function find(whole: string, forms: readonly NamedForm[], told: readonly Word[] = []): Item[] {
  const found: Item[] = [];
  // A match is hidden from the next patterns by blanks: the digits of an IBAN are not a telephone number.
  let text = whole;
  const toldHere = whole.length <= MAX_VALUE_CHARS ? told : [];
  const places: Places = { hints: new Map() };
  for (const form of forms) {
    const hidden: Range[] = [];
    const readAt = (start: number, told: readonly Word[]): Range | undefined => {
      const read = form.at?.({ text, start, end: start, told, follows: false });
      if (read === undefined) return undefined;
      const item = { name: form.name, start, end: start + read.length, value: read.value };
      found.push(item);
      hidden.push(item);
      return item;
    };
    const isWhole = told.length > 0 && readAt(0, told) !== undefined;
    for (const part of isWhole ? [] : partsOf(form, text, places)) {
      // An item may go on into the next part.
      const from = Math.max(part.from, (hidden.at(-1)?.end ?? 0) - part.start);
      eachMatch(form.pattern, text.slice(part.start, part.end), { from, to: part.to }, (match) => {
        const [all] = match;
        if (form.at) {
          const at = readAt(part.start + match.index + all.length, []);
          if (at) form.pattern.lastIndex = at.end - part.start;
          return;
        }
        // The numbered groups, if there are any: a separator has a name, and so a number, but is no item.
        const item = (match.groups === undefined && match.slice(1).join('')) || all;
        const first = part.start + match.index;
        const start = first + all.length - item.length;
        const last = found.at(-1);
        const follows = last?.name === form.name && BETWEEN.test(text.slice(last.end, start).slice(0, 13));
        const value = form.read?.(item, { text, start, end: start + item.length, told: toldHere, follows });
        const end = start + (form.cut?.(item) ?? item).length;
        // What is cut off may be another item, and what is none may have one in it.
        if (form.cut) form.pattern.lastIndex = match.index + (value === undefined ? 1 : end - first);
        if (value === undefined) return;
        found.push({ name: form.name, start, end, value });
        hidden.push({ start: first, end });
      });
    }
    text = withBlanks(text, hidden);
  }
  return found;
}

/** What several forms look for in a text. */
interface Places {
  hints: Map<RegExp, Range[]>;
  numbers?: Run[];
}

/** A part of a text in which matches of a form may begin: from one of its places to before another. */
interface Part extends Range {
  from: number;
  to: number;
}

/** Returns the parts of a text that may have matches of a form. */
function partsOf({ hint, digits, reach = [0, 0] }: Form, text: string, places: Places): Part[] {
  if (hint === undefined) {
    places.numbers ??= numbersIn(text);
    const [before, after, lead = MAX_LEAD] = reach;
    const runs = places.numbers.filter(
      (run) => run.digits >= (digits?.[0] ?? 0) && run.digits <= (digits?.[1] ?? run.digits),
    );
    return runs.map((run) => {
      const start = Math.max(0, run.start - before);
      return { start, end: run.end + after, from: Math.max(0, run.start - start - lead), to: run.end - start };
    });
  }
  if (reach[1] === 0) return hint.test(text) ? [{ start: 0, end: text.length, from: 0, to: text.length }] : [];
  const found = places.hints.get(hint) ?? [];
  if (!places.hints.has(hint)) {
    eachMatch(hint, text, { from: 0, to: text.length }, ({ index: start, 0: all }) => {
      found.push({ start, end: start + all.length + 1 });
    });
  }
  places.hints.set(hint, found);
  return around(found, reach);
}

/** Returns the parts of the text around places, those that touch as one: a hostile text has millions of places. */
function around(places: readonly Range[], [before, after]: NonNullable<Form['reach']>): Part[] {
  const parts: Part[] = [];
  for (const place of places) {
    const last = parts.at(-1);
    const start = Math.max(0, place.start - before);
    const end = Math.max(place.start + after, place.end);
    if (last !== undefined && start < last.end) {
      last.end = end;
      last.to = last.end - last.start;
    } else parts.push({ start, end, from: 0, to: end - start });
  }
  return parts;
}

/** The same as `matchAll`, which copies the pattern each time. A list of all matches in hostile text would be larger than the memory. */
function eachMatch(
  pattern: RegExp,
  text: string,
  { from, to }: Pick<Part, 'from' | 'to'>,
  use: (match: RegExpExecArray) => void,
): void {
  pattern.lastIndex = from;
  for (let match = pattern.exec(text); match !== null && match.index < to; match = pattern.exec(text)) {
    use(match);
    // A match of no characters, before an item, is found again.
    if (match[0] === '' && pattern.lastIndex === match.index) pattern.lastIndex += 1;
  }
}

function withBlanks(text: string, hidden: readonly Range[]): string {
  if (hidden.length === 0) return text;
  const parts = hidden.map(
    ({ start, end }, at) => text.slice(hidden[at - 1]?.end ?? 0, start) + ' '.repeat(end - start),
  );
  return parts.join('') + text.slice(hidden.at(-1)?.end);
}

/** Returns the ranges in order, without those within another. */
export function merged<R extends Item>(ranges: readonly R[]): R[] {
  const kept: R[] = [];
  for (const range of ranges.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = kept.at(-1);
    if (last === undefined || range.start >= last.end) kept.push(range);
    // Of two addresses that a letter joins, the second one goes on where the first one ends.
    else if (range.end > last.end && range.name === last.name) kept.push({ ...range, start: last.end });
    // Others that overlap in part, such as an item and what a pattern of REDACT matches, are masked as one.
    else if (range.end > last.end) last.end = range.end;
  }
  return kept;
}

/** Signs without a width, and other ways to write an at sign and a dot. */
const SPELLED = /[\u00ad\u200b-\u200d\u2060\ufeff]|&(?:#64|#x40|commat);|[[(] ?(?:(?:at|AT|dot|DOT) ?[\])] ?)/g;

/** Returns the text with the plain signs, and where each of its characters stood; `undefined` if it has only plain ones. */
export function respelled(text: string): { plain: string; places: number[] } | undefined {
  if (text.search(SPELLED) < 0) return undefined;
  let plain = '';
  const places: number[] = [];
  const add = (part: string, place: number): void => {
    for (let at = 0; at < part.length; at += 1) places.push(place + at);
    plain += part;
  };
  let from = 0;
  for (const { 0: sign, index } of text.matchAll(SPELLED)) {
    add(text.slice(from, index), from);
    from = index + sign.length;
    if (sign.length === 1) continue;
    if (plain.endsWith(' ') && !sign.startsWith('&')) {
      plain = plain.slice(0, -1);
      places.pop();
    }
    add(/dot/i.test(sign) ? '.' : '@', index);
  }
  add(text.slice(from), from);
  return { plain, places };
}

/** Digits and signs as keyboards of other scripts, and word processors, write them. Of dashes, those within a number. */
const FOLDED =
  /[\uff01-\uff5e\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u00a0\u2000-\u200a\u202f\u3000\u2010\u2011]|[\u2012-\u2015\u2212](?= ?[\dA-Z(])(?<=[\dA-Z)] ?.)/g;

/** Returns the text with ASCII in their place, of the same length. */
export const folded = (text: string): string =>
  text.replace(FOLDED, (sign) => {
    const code = sign.charCodeAt(0);
    // The digits of three scripts begin at 0x660, 0x6f0 and 0x966.
    if (code >= 0x660 && code <= 0x96f) return String((code < 0x966 ? code : code - 6) % 16);
    return /[\u2010-\u2015\u2212]/.test(sign) ? '-' : sign.normalize('NFKC');
  });
