/** Identifiers that states give to persons and firms: their forms, and their check digits. */

import type { Form, Place } from './form.ts';
import { SIGNS } from './marks.ts';
import IDS from './national-ids.json' with { type: 'json' };
import { wordsBefore } from './words.ts';

/** A weighted sum, or one of the named algorithms. */
interface Check {
  algorithm?: string;
  /** The weight of each place. Places without a weight, or with weight 0, do not count. */
  weights?: number[];
  /** Values of letters. Default: A is 10, B is 11, … */
  letters?: Record<string, number>;
  /** Whether a product above 9 counts as the sum of its digits, as in Luhn's algorithm. */
  fold?: boolean;
  /** A second sum, which is added to the sum. */
  and?: Check;
  mod?: number;
  /** The check digit for each remainder of the sum. `_`: the remainder has no check digit, and `else` decides. */
  to?: string;
  else?: Check;
  /** The place of the check digit. Default: behind the weights. */
  at?: number;
  /** The remainders for valid numbers, if the check digits have weights too. */
  rest?: number[];
}

/**
 * An identifier. `form`: the number without separators; `alone`: the written form that is found without a word before it; `lettered`:
 * letters are between few digits.
 */
type Id = { id: string; form: string; alone?: string; lettered?: boolean; checks?: Check[] };

const whole = (pattern: string): RegExp => new RegExp(`^(?:${pattern})$`, 'iu');
const LISTED = (IDS as Id[]).map(({ id, form, alone = '(?!)', checks = [] }) => ({
  id,
  form: whole(form),
  alone: whole(alone),
  checks,
}));

/** Returns a product in the dihedral group of order 10 (Verhoeff, 1969). */
const turn = (a: number, b: number): number => {
  const [x, y] = [a % 5, b % 5];
  if (a < 5) return b < 5 ? (x + y) % 5 : ((x + y) % 5) + 5;
  return b < 5 ? ((x - y + 5) % 5) + 5 : (x - y + 5) % 5;
};
/** The permutation of Verhoeff's algorithm, which is applied once more for each place from the right. */
const PERMUTED = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];

const ALGORITHMS: Readonly<Record<string, (digits: string) => boolean>> = {
  verhoeff: (digits) => {
    let check = 0;
    for (const [place, digit] of [...digits].toReversed().entries()) {
      let value = Number(digit);
      for (let n = 0; n < place % 8; n += 1) value = PERMUTED[value] as number;
      check = turn(check, value);
    }
    return check === 0;
  },
  // ISO 7064
  'mod-11-10': (digits) => {
    let product = 10;
    for (const digit of digits.slice(0, -1)) product = (((Number(digit) + product) % 10 || 10) * 2) % 11;
    return (product + Number(digits.at(-1))) % 10 === 1;
  },
};

function sumOf({ weights = [], letters = {}, fold, and }: Check, number: string): number {
  let sum = and === undefined ? 0 : sumOf(and, number);
  for (const [place, weight] of weights.entries()) {
    const sign = number[place];
    if (sign === undefined || weight === 0) continue;
    const product = weight * (letters[sign] ?? Number.parseInt(sign, 36));
    sum += fold && weight > 1 && product > 9 ? product - 9 : product;
  }
  return sum;
}

function passes(check: Check, number: string): boolean {
  const { algorithm, weights = [], mod = 1, to = '', at = weights.length, rest } = check;
  if (algorithm !== undefined) return ALGORITHMS[algorithm]?.(number) ?? false;
  const left = ((sumOf(check, number) % mod) + mod) % mod;
  if (rest !== undefined) return rest.includes(left);
  if (to[left] === '_' && check.else) return passes(check.else, number);
  return to[left] === number[at];
}

const compact = (text: string): string => text.toUpperCase().replace(/[^\p{L}\d]/gu, '');

/**
 * Reads an identifier of these ids, or of any.
 *
 * @param by `alone`: compares the written form; `form`: compares the number without separators
 * @returns the number without separators; `undefined` if no identifier has this form and these check digits
 */
function read(text: string, by: 'form' | 'alone', ids?: ReadonlySet<string>): string | undefined {
  const number = compact(text);
  // A country code may precede the number, as in the numbers of the value added tax.
  const numbers = by === 'form' && /^[A-Z]{2}\d/.test(number) ? [number, number.slice(2)] : [number];
  const found = numbers.find((one) =>
    LISTED.some(
      (id) =>
        (ids?.has(id.id) ?? true) &&
        id[by].test(by === 'form' ? one : text) &&
        id.checks.every((check) => passes(check, one)),
    ),
  );
  return found === undefined || /^(\d)\1*$/.test(found) ? undefined : number;
}

// ----------------------------------------------------------------------------------------------------- in a text

/** Returns the pattern for all `alone` forms, unless the match is the beginning of a UUID. */
function ownForms(isLettered: boolean): RegExp {
  const forms = (IDS as Id[]).filter(({ alone, lettered = false }) => alone && lettered === isLettered);
  const own = forms.map(({ alone }) => alone).join('|');
  return new RegExp(
    `(?<![A-Z\\d])(?=[A-ZÑ&]{0,6}[- ]?\\d)(?<![\\p{L}\\p{N}_+]|[\\p{L}\\p{N}][-.]|\\+\\d{1,3} )(?:${own})(?![\\p{L}\\p{N}_]|[-.]\\p{N}|-[\\da-f]{4}-)`,
    'giu',
  );
}

/** The place before a number that a word may announce. */
const BEFORE_ID = /(?:^|[^A-Za-z\d\u00c0-\u024f])(?=(?:[A-Za-z]-)?[A-Za-z]{0,6}\d)/g;
/** The same for a number with letters between few digits. */
const BEFORE_LETTERED = /(?:^|[^A-Za-z\d\u00c0-\u024f])(?=[A-Za-z]{0,6}\d{1,3}[A-Za-z])/g;
/** Groups of digits and letters with separators between them. */
const GROUPS =
  /(?:[A-Za-z]-(?=\d))?[A-Za-z]{0,6}\d[A-Za-z\d]{0,20}(?:[ ./()-]{1,3}(?:[A-Za-z]{0,4}\d[A-Za-z\d]{0,20}|[A-Z]{1,3}(?!\p{L})|[a-z](?!\p{L}))){0,8}\)?/uy;
const DATE = /^(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{4})$/;
const CAPITALS = /\b\p{Lu}{2,6}\b/u;

/** Reads a number of a passport, a licence or a file, which has no check digits, or whose check digits are not published. */
function readUnchecked(text: string): string | undefined {
  const number = compact(text);
  return /^(?=(?:\D*\d){4})[A-Z\d]{5,20}$/.test(number) ? number : undefined;
}

/** Reads the longest number at a place that the words before it, or the name of its field, announce. */
function announcedAt({ text, start, told }: Place): ReturnType<NonNullable<Form['at']>> {
  const before = text.slice(Math.max(0, start - 30), start);
  // A weak word must be in capitals: "sin" is a word of Spanish, "SIN" is a number in Canada.
  const words = (told.length > 0 ? told : wordsBefore(text, start)).filter(
    ({ kind, isWeak }) => kind === 'national_id' && (!isWeak || CAPITALS.test(before)),
  );
  if (words.length === 0) return undefined;
  GROUPS.lastIndex = start;
  const groups = GROUPS.exec(text)?.[0] ?? '';
  if (DATE.test(groups)) return undefined;
  const ends = [...groups.matchAll(/[A-Za-z\d](?![A-Za-z\d])\)?/g)].map(({ index, 0: end }) => index + end.length);
  const kinds = words.map(({ of }) => of);
  const hasUnchecked = kinds.includes('unchecked');
  // Some words announce identifiers of one country.
  const ids = kinds.includes('checked') || hasUnchecked ? undefined : new Set(kinds.join(' ').split(' '));
  for (const length of ends.reverse()) {
    const item = groups.slice(0, length);
    const value = read(item, 'form', ids) ?? (hasUnchecked ? readUnchecked(item) : undefined);
    if (value !== undefined) return { length, value };
  }
  return undefined;
}

const readOwn = (item: string): string | undefined => read(item, 'alone');
/** Letters between digits. */
const LETTERED = /[A-Z]{2}[ -]?\d[\dLMNP-V]|\d[A-Z][A-Z\d]?\d/i;

/** Digits with separators or letters between or beside them, or at least 11 digits. */
const DIVIDED = /\d[ ./()+-]\d|[A-Z][ -]?\d{6}|\d[ -]?[A-Z]|\d{11}/i;

/** The forms of identifiers, in the order of the search. */
export const NATIONAL_IDS: readonly Form[] = [
  { pattern: BEFORE_LETTERED, signs: [SIGNS.digit | SIGNS.letter], behind: 24, hint: LETTERED, at: announcedAt },
  { pattern: ownForms(true), signs: [SIGNS.digit | SIGNS.letter], behind: 24, hint: LETTERED, read: readOwn },
  { pattern: BEFORE_ID, digits: 4, behind: 24, word: 'national_id', at: announcedAt },
  { pattern: ownForms(false), digits: 6, behind: 24, hint: DIVIDED, read: readOwn },
];
