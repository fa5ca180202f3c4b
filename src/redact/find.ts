/** Finds personal data and secrets in a text. */

import { type Form, wordsBeside } from './form.ts';
import { KINDS, type Kind, UNSPACED } from './kinds.ts';
import { type Mark, marksIn, numbersIn, type Range, type Run } from './marks.ts';
import type { Word } from './words.ts';

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
/** What stands between two items of a list. */
const BETWEEN = /^[\s,;/|&+]{1,4}(?:\p{L}{1,5}[\s:.]{1,2})?\(?$/u;
/** What is read around a word or a number, as before a year; and what may stand before the first digit of a number, such as "(+". */
const BEFORE = 42;
const BEHIND = 60;
const LEAD = 12;

/** Returns the forms of kinds, in the order of `KINDS`. */
export const formsOf = (kinds: readonly Kind[]): NamedForm[] =>
  (Object.entries(KINDS) as [Kind, readonly Form[]][]).flatMap(([name, forms]) =>
    kinds.includes(name) ? forms.map((form) => ({ ...form, name })) : [],
  );

/**
 * Returns every item. The time is linear in the length: look-behinds keep a pattern from beginning within a run of characters that it
 * has read.
 *
 * @param told what the name of the text's field announces. It counts only in short texts, which are values
 */
export function find(written: string, forms: readonly NamedForm[], told: readonly Word[] = []): Item[] {
  const text = folded(written);
  const search = new Search(text, written, text.length <= MAX_VALUE_CHARS ? told : []);
  for (const form of forms) {
    const value = form.whole?.(text, told);
    if (value !== undefined) search.found.push({ name: form.name, start: 0, end: text.length, value });
    else if (form.digits === undefined && form.signs === undefined) search.inAll(form);
  }
  search.hide();
  const ofMarks = forms.filter(({ signs }) => signs !== undefined);
  for (const mark of ofMarks.length > 0 ? marksIn(search.text) : []) search.inMark(mark, ofMarks);
  search.hide();
  const ofNumbers = forms.filter(({ digits }) => digits !== undefined);
  for (const run of ofNumbers.length > 0 ? numbersIn(search.text) : []) search.inNumber(run, ofNumbers);
  return search.found;
}

/** A part of a text in which matches begin between two places. */
interface Part {
  text: string;
  /** Where the part stands in the text. */
  start: number;
  from: number;
  to: number;
}

class Search {
  readonly found: Item[] = [];
  text: string;
  #written: string;
  readonly #told: readonly Word[];
  /** A match is hidden from the next patterns by blanks: the digits of an IBAN are not a telephone number. */
  #hidden: Range[] = [];

  constructor(text: string, written: string, told: readonly Word[]) {
    this.text = text;
    this.#written = written;
    this.#told = told;
  }

  hide(): void {
    const isSame = this.#written === this.text;
    this.text = withBlanks(this.text, this.#hidden);
    this.#written = isSame ? this.text : withBlanks(this.#written, this.#hidden);
    this.#hidden = [];
  }

  inAll(form: NamedForm): void {
    if (form.hint?.test(this.text) === false) return;
    this.#matches(form, { text: this.text, start: 0, from: 0, to: this.text.length });
    this.hide();
  }

  inMark({ start, end, signs, long }: Mark, forms: readonly NamedForm[]): void {
    const free = this.#hidden.at(-1)?.end ?? 0;
    if (free >= end) return;
    const usable = forms.filter((form) => ((form.signs ?? 0) & signs) === form.signs && (form.long ?? 0) <= long);
    if (usable.length > 0) this.#near({ start: Math.max(free, start - LEAD, 0), end }, usable);
  }

  inNumber(run: Run, forms: readonly NamedForm[]): void {
    const enough = forms.filter(({ digits = 0 }) => digits <= run.digits);
    const words = enough.some(({ word }) => word) ? [...this.#told, ...wordsBeside(this.text, run)] : [];
    const isAnnounced = ({ name, word }: NamedForm): boolean =>
      word === undefined || words.some(({ kind }) => kind === word) || this.#follows(name, run.start);
    this.#near({ start: Math.max(0, run.start - LEAD), end: run.end }, enough.filter(isAnnounced));
  }

  /** Looks for items that begin in a range. */
  #near({ start: first, end }: Range, forms: readonly NamedForm[]): void {
    const start = Math.max(0, first - BEFORE);
    const text = this.text.slice(start, end + BEHIND);
    const written = this.#written.slice(start, end + BEHIND);
    // In each form, since a sign that is folded may join an item to what stands beside it.
    for (const one of PLAIN.test(written) ? [text] : new Set([spaced(text), text, written])) {
      const part = { text: one, start, from: first - start, to: end - start };
      for (const form of forms) {
        if (form.hint?.test(part.text) === false) continue;
        const count = this.#hidden.length;
        this.#matches(form, part);
        const hidden = this.#hidden.slice(count);
        if (hidden.length > 0) part.text = withBlanks(part.text, hidden, start);
      }
    }
  }

  /** Adds the items of a form. */
  #matches(form: NamedForm, part: Part): void {
    const { name, pattern } = form;
    const { text } = this;
    pattern.lastIndex = part.from;
    for (let match = pattern.exec(part.text); match && match.index < part.to; match = pattern.exec(part.text)) {
      const [all] = match;
      const first = part.start + match.index;
      // The numbered groups, if there are any: a separator has a name, and so a number, but is no item.
      const group = match.groups === undefined ? match.slice(1).join('') : '';
      if (form.at) {
        const start = match[1] === undefined ? first + all.length : first - group.length;
        const read = form.at({ text, start, end: start, told: this.#told, follows: false });
        if (read) pattern.lastIndex = this.#add(name, start, start + read.length, read.value) - part.start;
        // A match of no characters, before an item, is found again.
        else if (all === '') pattern.lastIndex += 1;
        continue;
      }
      const item = group || all;
      const start = first + all.length - item.length;
      const place = { text, start, end: start + item.length, told: this.#told, follows: this.#follows(name, start) };
      const value = form.read?.(item, place);
      const end = start + (form.cut?.(item) ?? item).length;
      // What is cut off may be another item, and what is none may have one in it.
      if (form.cut) pattern.lastIndex = value === undefined ? match.index + 1 : end - part.start;
      if (value !== undefined) this.#add(name, start, end, value, first);
    }
  }

  /** @param first where the match begins. @returns the end */
  #add(name: Kind, start: number, end: number, value: string, first = start): number {
    this.found.push({ name, start, end, value });
    this.#hidden.push({ start: first, end });
    return end;
  }

  /** Whether an item of the same kind is right before a place, as in a list. */
  #follows(name: Kind, start: number): boolean {
    const last = this.found.findLast((one) => one.name === name);
    return last !== undefined && last.end <= start && BETWEEN.test(this.text.slice(last.end, start).slice(0, 13));
  }
}

/** Nothing is written in several forms. */
const PLAIN = /^[\t\n\r -[\]-~]*$/;
const spaced = (text: string): string => text.replace(UNSPACED, (letters) => ' '.repeat(letters.length));

/** @param place where the text stands in the one of the ranges */
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
const folded = (text: string): string =>
  text.replace(FOLDED, (sign) => {
    const code = sign.charCodeAt(0);
    // The digits of three scripts begin at 0x660, 0x6f0 and 0x966.
    if (code >= 0x660 && code <= 0x96f) return String((code < 0x966 ? code : code - 6) % 16);
    return /[\u2010-\u2015\u2212]/.test(sign) ? '-' : sign.normalize('NFKC');
  });
