/** Finds the places where items may be in one pass: words that have digits or signs, and numbers. */

/** A part of a text, from `start` to before `end`. */
export interface Range {
  start: number;
  end: number;
}

/** A word (characters without a space) that has a digit or a sign, or is long. */
export interface Mark extends Range {
  /** Bits of `SIGNS`. */
  signs: number;
  /** The most letters, digits, hyphens and dots in a row. */
  long: number;
  /** The most hexadecimal digits in a row. */
  hex: number;
}

/**
 * The features of a word. `option`: a hyphen at its beginning, or two hyphens in a row; `parts`: two or more dots, hyphens or colons;
 * `capital`: a capital or `_`.
 */
export const SIGNS = { digit: 1, letter: 2, at: 4, colon: 8, equals: 16, option: 32, parts: 64, capital: 128 } as const;
/** Signs within names, paths and keys. */
const INNER = 256;
const HEX = 512;
const SPACE = 1024;
/** Minimum length of an item without a digit or a sign. */
const MIN_LONG = 12;

const signOf = (character: string): number => {
  const hex = /[\da-f]/i.test(character) ? HEX : 0;
  if (/\s/.test(character)) return SPACE;
  if (/\d/.test(character)) return SIGNS.digit | hex;
  if (/[@%]/.test(character)) return SIGNS.at;
  if (/[=>]/.test(character)) return SIGNS.equals;
  if (character === ':') return SIGNS.colon;
  if (/[A-Z_]/.test(character)) return SIGNS.letter | SIGNS.capital | hex;
  return /[a-z]/.test(character) ? SIGNS.letter | hex : /[$&*+./~\\-]/.test(character) ? INNER : 0;
};
const ASCII = Uint16Array.from({ length: 128 }, (_, code) => signOf(String.fromCharCode(code)));
const IN_ROW = SIGNS.digit | SIGNS.letter | INNER;
const MARKS = SIGNS.digit | SIGNS.at | SIGNS.colon | SIGNS.equals | SIGNS.option;
const [HYPHEN, DOT, COLON] = [45, 46, 58];

/** Returns the marks around the ranges, in order. A loop reads the text once, while each pattern would read it once more. @param ranges sorted */
export function marksIn(text: string, ranges: readonly Range[] = [{ start: 0, end: text.length }]): Mark[] {
  const marks: Mark[] = [];
  for (const part of widened(text, ranges, (code) => code >= 128 || ASCII[code] !== SPACE)) {
    for (let at = part.start; at < part.end; at += 1) {
      const start = at;
      let signs = 0;
      let row = 0;
      let long = 0;
      let hexes = 0;
      let hex = 0;
      let separators = 0;
      for (; at < part.end; at += 1) {
        const code = text.charCodeAt(at);
        const sign = code < 128 ? (ASCII[code] as number) : SIGNS.letter;
        if (sign === SPACE) break;
        signs |= sign;
        if (code === HYPHEN && (at === start || text.charCodeAt(at - 1) === code)) signs |= SIGNS.option;
        if (code <= COLON && (code === DOT || code === HYPHEN || code === COLON)) separators += 1;
        row = sign & IN_ROW && code < 128 ? row + 1 : 0;
        if (row > long) long = row;
        hexes = sign & HEX ? hexes + 1 : 0;
        if (hexes > hex) hex = hexes;
      }
      if (separators > 1) signs |= SIGNS.parts;
      if (signs & MARKS || long >= MIN_LONG) marks.push({ start, end: at, signs: signs & (INNER - 1), long, hex });
    }
  }
  return marks;
}

/** Extends the ranges to whole words or numbers. @param isInner whether a character belongs to a word or a number */
function widened(text: string, ranges: readonly Range[], isInner: (code: number) => boolean): Range[] {
  const wide: Range[] = [];
  let last = 0;
  for (let { start, end } of ranges) {
    while (start > last && isInner(text.charCodeAt(start - 1))) start -= 1;
    while (end > last && end < text.length && isInner(text.charCodeAt(end))) end += 1;
    if (end > last) wide.push({ start: Math.max(start, last), end });
    last = Math.max(last, end);
  }
  return wide;
}

/** Digits with at most three separators between two of them. */
export interface Run extends Range {
  digits: number;
  /** Dots between the digits. */
  dots: number;
  /** Digits in a row count as a group. */
  groups: number;
}

/** Minimum number of digits of an item. */
const MIN_DIGITS = 4;
const MAX_SEPARATORS = 3;
const SEPARATORS = new Set([...' \t\r\n./()-'].map((sign) => sign.charCodeAt(0)));
/** A year of a Japanese era may have fewer digits. This character follows the year. */
const YEAR = '年';
const DIGIT = /\d/g;

export const isDigit = (code: number): boolean => code >= 48 && code <= 57;

/** Returns the numbers around the ranges, in order. A loop, because the memory of a pattern grows with its match. @param ranges sorted */
export function numbersIn(text: string, ranges: readonly Range[] = [{ start: 0, end: text.length }]): Run[] {
  const runs: Run[] = [];
  for (const { start: from, end: to } of widened(text, ranges, (code) => isDigit(code) || SEPARATORS.has(code))) {
    DIGIT.lastIndex = from;
    while (DIGIT.test(text) && DIGIT.lastIndex <= to) {
      const start = DIGIT.lastIndex - 1;
      let end = start + 1;
      let digits = 1;
      let dots = 0;
      let groups = 1;
      for (let at = end; at - end <= MAX_SEPARATORS; at += 1) {
        const code = text.charCodeAt(at);
        if (code === DOT) dots += 1;
        if (isDigit(code)) {
          if (at > end) groups += 1;
          digits += 1;
          end = at + 1;
        } else if (!SEPARATORS.has(code)) break;
      }
      if (digits >= MIN_DIGITS || text[end] === YEAR) runs.push({ start, end, digits, dots, groups });
      DIGIT.lastIndex = end;
    }
  }
  return runs;
}
