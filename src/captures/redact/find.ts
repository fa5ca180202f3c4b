/** Finds personal data and secrets in a text. */

import { type Form, wordsBeside } from './form.ts';
import { KINDS, type Kind, UNSPACED } from './kinds.ts';
import { type Mark, marksIn, numbersIn, type Range, type Run } from './marks.ts';
import type { Word } from './words.ts';

/** An item in a text. */
export interface Item extends Range {
  /** The name of the kind, the field or the pattern. */
  name: string;
  /** The normalised value. It is the personal data itself: never log it. */
  value: string;
}

type NamedForm = Form & { name: Kind };

/** Maximum length of a text that counts as the value of a field. */
export const MAX_VALUE_CHARS = 200;
/** Maximum number of characters between two items of a list. */
const MAX_BETWEEN = 13;
const BETWEEN = /^[\s,;/|&+]{1,4}(?:\p{L}{1,5}[\s:.]{1,2})?\(?$/u;
/** Characters that patterns read before a word or a number, such as the month before a year. */
const BEFORE = 42;
/** The same with the words that announce an item. */
const MAX_BEFORE = 200;
const BEHIND = 12;
const MAX_BEHIND = 70;
/** Characters that an item may have before its first digit or sign, such as "(+". */
const LEAD = 16;

/** The forms of kinds, in the order of `KINDS`. */
export class Forms {
  readonly all: readonly NamedForm[];
  /** The forms that can match a word or a number, by a key that packs its features. */
  readonly #usable = new Map<number, readonly NamedForm[]>();

  constructor(kinds: readonly Kind[]) {
    const entries = Object.entries(KINDS) as [Kind, readonly Form[]][];
    // Every form gets all keys, because V8 reads objects of the same shape faster.
    const keys = entries.flatMap(([, forms]) => forms.flatMap(Object.keys));
    const blank = Object.fromEntries(keys.map((key) => [key, undefined]));
    const named = entries.map(([name, forms]) => forms.map((form) => ({ ...blank, ...form, name })));
    this.all = named.flat().filter(({ name }) => kinds.includes(name));
  }

  ofMark({ signs, long, hex }: Mark): readonly NamedForm[] {
    const [most, hexes] = [Math.min(long, MAX_LONG), Math.min(hex, MAX_LONG)];
    const isUsable = (form: Form): boolean =>
      isOfSigns(form, signs) && (form.long ?? 0) <= most && (form.hex ?? 0) <= hexes;
    return this.#those((signs * 64 + most) * 64 + hexes, isUsable);
  }

  ofNumber(run: Run): readonly NamedForm[] {
    const digits = Math.min(run.digits, MAX_LONG);
    const [dots, groups] = [Math.min(run.dots, MAX_PARTS), Math.min(run.groups, MAX_PARTS)];
    const isUsable = ({ digits: least = Number.POSITIVE_INFINITY, ...form }: Form): boolean =>
      least <= digits && (form.dots ?? 0) <= dots && (form.groups ?? 0) <= groups;
    return this.#those(-(digits * 16 + dots * 4 + groups), isUsable);
  }

  #those(key: number, isUsable: (form: NamedForm) => boolean): readonly NamedForm[] {
    const usable = this.#usable.get(key) ?? this.all.filter(isUsable);
    this.#usable.set(key, usable);
    return usable;
  }
}

const isOfSigns = ({ signs = [] }: Form, has: number): boolean => signs.some((all) => (all & ~has) === 0);

/** Maximum number of digits or letters in a row that a form may require. */
const MAX_LONG = 50;
/** Maximum number of dots or groups that a form may require. */
const MAX_PARTS = 3;

/**
 * Returns every item of a text. The time is linear in the length: look-behinds keep a pattern from starting again within a run of
 * characters that it has read.
 *
 * @param told announcements in the name of the text's field. They count only for short texts, which are values
 * @param within restricts the search to words and numbers that overlap these ranges; sorted, and without overlaps
 *
 * @example
 *     find('Write to jane@example.com', new Forms(['email'])); // [{ name: 'email', value: 'jane@example.com', start: 9, end: 25 }]
 */
export function find(written: string, forms: Forms, told: readonly Word[] = [], within?: readonly Range[]): Item[] {
  if (!MAY_DIFFER.test(written)) return new Search(written, undefined, forms, told).run(within);
  const read = folded(written);
  // The text is searched in each form, because a folded sign may join an item to its neighbour.
  const texts = new Set([read.replace(UNSPACED, (letters) => ' '.repeat(letters.length)), read, written]);
  const [first] = texts;
  const items = [...texts].flatMap((text) => new Search(text, first, forms, told).run(within));
  // Of equal items at the same place, the first item is kept.
  return [...new Map(items.reverse().map((item) => [`${item.name} ${item.start} ${item.end}`, item])).values()];
}

/** A part of a text in which matches begin between two places. */
interface Part {
  text: string;
  /** The place of the part in the text. */
  start: number;
  from: number;
  to: number;
}

class Search {
  readonly #text: string;
  readonly #isWide: boolean;
  readonly #other: string | undefined;
  readonly #forms: Forms;
  readonly #told: readonly Word[];
  readonly #toldHere: readonly Word[];
  readonly #found: Item[] = [];
  /** The end of the last item of each kind. */
  readonly #last = new Map<Kind, number>();
  /** Matches that blanks hide from the next patterns: the digits of an IBAN are not a telephone number. */
  readonly #hidden: Range[] = [];
  /** The end of the last match. */
  #free = 0;

  /** @param other a form of the text that was searched before. Parts that are the same in both forms are skipped */
  constructor(text: string, other: string | undefined, forms: Forms, told: readonly Word[]) {
    this.#text = text;
    this.#isWide = /[^\0-\xff]/.test(text);
    this.#other = other === text ? undefined : other;
    this.#forms = forms;
    this.#told = told;
    this.#toldHere = text.length <= MAX_VALUE_CHARS ? told : [];
  }

  run(within?: readonly Range[]): Item[] {
    for (const { name, whole } of this.#told.length > 0 ? this.#forms.all : []) {
      const value = whole?.(this.#text, this.#told);
      if (value !== undefined) this.#found.push({ name, start: 0, end: this.#text.length, value });
    }
    for (const mark of marksIn(this.#text, within)) if (!this.#isSame(mark)) this.#inMark(mark);
    const text = withBlanks(this.#text, this.#hidden);
    for (const run of numbersIn(text, within)) if (!this.#isSame(run)) this.#inNumber(run, text);
    return this.#found;
  }

  #isSame({ start, end }: Range): boolean {
    const part = (text: string): string => text.slice(Math.max(0, start - MAX_BEFORE), end + MAX_BEHIND);
    return this.#other !== undefined && part(this.#other) === part(this.#text);
  }

  #inMark(mark: Mark): void {
    const start = Math.max(this.#free, mark.start - LEAD);
    if (start < mark.end) this.#near({ start, end: mark.end }, this.#forms.ofMark(mark), this.#text);
  }

  /** @param text the text with blanks in place of the items that were found */
  #inNumber(run: Run, text: string): void {
    const usable = this.#forms.ofNumber(run);
    const words = usable.some(({ word }) => word) ? [...this.#toldHere, ...wordsBeside(text, run)] : [];
    const isAnnounced = ({ name, word }: NamedForm): boolean =>
      word === undefined || words.some(({ kind }) => kind === word) || this.#follows(name, run.start, text);
    this.#near({ start: Math.max(0, run.start - LEAD), end: run.end }, usable.filter(isAnnounced), text);
  }

  /** Looks for items that begin in a range. */
  #near({ start: first, end }: Range, forms: readonly NamedForm[], text: string): void {
    if (forms.length === 0) return;
    const start = Math.max(0, first - BEFORE);
    const near = text.slice(start, end + MAX_BEHIND);
    const part = { text: this.#isWide ? narrow(near) : near, start, from: first - start, to: end - start };
    for (const form of forms) {
      const near = part.text.slice(0, part.to + (form.behind ?? BEHIND));
      if (form.hint?.test(near) === false) continue;
      const count = this.#hidden.length;
      this.#matches(form, near, part, text);
      if (this.#hidden.length > count) part.text = withBlanks(part.text, this.#hidden.slice(count), start);
    }
  }

  /** Adds the items of a form. */
  #matches(form: NamedForm, near: string, part: Part, text: string): void {
    const { name, pattern } = form;
    const told = this.#toldHere;
    pattern.lastIndex = part.from;
    for (let match = pattern.exec(near); match && match.index < part.to; match = pattern.exec(near)) {
      const [all] = match;
      const first = part.start + match.index;
      // A pattern with a named group (a separator) has no group for the item, so its whole match is the item.
      const group = match.length > 1 && match.groups === undefined ? match.slice(1).join('') : '';
      if (form.at) {
        const start = match[1] === undefined ? first + all.length : first - group.length;
        const read = form.at({ text, start, end: start, told, follows: false });
        const end = read && this.#add(name, start, start + read.length, read.value) - part.start;
        // An item that begins before the match may also end before the match.
        if (end !== undefined) pattern.lastIndex = Math.max(end, match.index + all.length);
        // An empty match would be found again.
        else if (all === '') pattern.lastIndex += 1;
        continue;
      }
      const item = group || all;
      const start = first + all.length - item.length;
      const place = { text, start, end: start + item.length, told, follows: this.#follows(name, start, text) };
      const value = form.read?.(item, place);
      const end = start + (form.cut?.(item) ?? item).length;
      // The characters behind a cut may be another item, and a match that is no item may contain an item.
      if (form.cut) pattern.lastIndex = value === undefined ? match.index + 1 : end - part.start;
      if (value !== undefined) this.#add(name, start, end, value, first);
    }
  }

  /** @param first the start of the match @returns the end of the item */
  #add(name: Kind, start: number, end: number, value: string, first = start): number {
    this.#found.push({ name, start, end, value });
    this.#last.set(name, end);
    this.#hidden.push({ start: first, end });
    this.#free = Math.max(this.#free, end);
    return end;
  }

  /** Whether an item of the same kind is right before a place, as in a list. */
  #follows(name: Kind, start: number, text: string): boolean {
    const last = this.#last.get(name) ?? start;
    return last < start && start - last <= MAX_BETWEEN && BETWEEN.test(text.slice(last, start));
  }
}

/** Copies a part with only ASCII from a text of wide characters: V8 then stores a byte per character, and patterns read it faster. */
const narrow = (part: string): string =>
  /^[\0-\x7f]*$/.test(part) ? Buffer.from(part, 'latin1').toString('latin1') : part;

/** Replaces ranges by blanks. @param place the place of the text in the text to which the ranges refer */
function withBlanks(text: string, hidden: readonly Range[], place = 0): string {
  if (hidden.length === 0) return text;
  let blanked = '';
  let from = 0;
  for (const { start, end } of hidden.toSorted((a, b) => a.start - b.start)) {
    const [first, last] = [Math.max(from, start - place), Math.min(text.length, end - place)];
    if (last <= first) continue;
    blanked += text.slice(from, first) + ' '.repeat(last - first);
    from = last;
  }
  return blanked + text.slice(from);
}

/** Returns the ranges in order, without overlaps and without ranges that are within another range. */
export function merged<R extends Item>(ranges: readonly R[]): R[] {
  const kept: R[] = [];
  for (const range of ranges.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = kept.at(-1);
    if (last === undefined || range.start >= last.end) kept.push(range);
    // If a letter joins two addresses, the second address begins where the first address ends.
    else if (range.end > last.end && range.name === last.name) kept.push({ ...range, start: last.end });
    // Other ranges that overlap in part, such as an item and a match of a pattern of REDACT, are masked as one item.
    else if (range.end > last.end) last.end = range.end;
  }
  return kept;
}

/** Signs without a width, and other ways to write an at sign and a dot. */
const SPELLED = /[\u00ad\u200b-\u200d\u2060\ufeff]|&(?:#64|#x40|commat);|[[(] ?(?:(?:at|AT|dot|DOT) ?[\])] ?)/g;

/** Returns the text with plain signs, and the captured place of each character; `undefined` if all signs are plain. */
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

/** A text without these characters has only one form. */
const MAY_DIFFER = /[\\\u00a0\u0660-\uffff]/;
/** Digits and signs of other scripts and of word processors. Dashes count only within a number. */
const FOLDED =
  /[\uff01-\uff5e\u0660-\u0669\u06f0-\u06f9\u0966-\u096f\u00a0\u2000-\u200a\u202f\u3000\u2010\u2011]|[\u2012-\u2015\u2212](?= ?[\dA-Z(])(?<=[\dA-Z)] ?.)/g;

/** Returns the text with ASCII in place of these characters. The length stays the same. */
const folded = (text: string): string =>
  text.replace(FOLDED, (sign) => {
    const code = sign.charCodeAt(0);
    // The digits of three scripts begin at 0x660, 0x6f0 and 0x966.
    if (code >= 0x660 && code <= 0x96f) return String((code < 0x966 ? code : code - 6) % 16);
    return /[\u2010-\u2015\u2212]/.test(sign) ? '-' : sign.normalize('NFKC');
  });
