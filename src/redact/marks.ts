/** Finds where items may be, in one pass: words that have digits or signs, and numbers. */

/** A part of a text, from `start` to before `end`. */
export interface Range {
  start: number;
  end: number;
}

/** Characters without a space between them that have a digit or a sign, or are long. */
export interface Mark extends Range {
  /** Of `SIGNS`. */
  signs: number;
  /** The most letters, digits, hyphens and dots in a row. */
  long: number;
}

/** What a word may have. An `option` is a hyphen at its beginning, or two hyphens in a row; `parts`: two or more dots, hyphens or colons. */
export const SIGNS = { digit: 1, letter: 2, at: 4, colon: 8, equals: 16, option: 32, parts: 64 } as const;
/** Signs within names, paths and keys. */
const INNER = 128;
const SPACE = 256;
/** Without a digit or a sign, no item is shorter. */
const MIN_LONG = 12;

const signOf = (character: string): number => {
  if (/\s/.test(character)) return SPACE;
  if (/\d/.test(character)) return SIGNS.digit;
  if (/[@%]/.test(character)) return SIGNS.at;
  if (/[=>]/.test(character)) return SIGNS.equals;
  if (character === ':') return SIGNS.colon;
  return /\w/.test(character) ? SIGNS.letter : /[$&*+./~\\-]/.test(character) ? INNER : 0;
};
const ASCII = Uint16Array.from({ length: 128 }, (_, code) => signOf(String.fromCharCode(code)));
const IN_ROW = SIGNS.digit | SIGNS.letter | INNER;
const MARKS = SIGNS.digit | SIGNS.at | SIGNS.colon | SIGNS.equals | SIGNS.option;
const [HYPHEN, DOT, COLON] = [45, 46, 58];

/** Returns the marks in order. A loop, since patterns would read the text once each. */
export function marksIn(text: string): Mark[] {
  const marks: Mark[] = [];
  let start = 0;
  let signs = 0;
  let row = 0;
  let long = 0;
  let separators = 0;
  for (let at = 0; at <= text.length; at += 1) {
    const code = at < text.length ? text.charCodeAt(at) : 32;
    const sign = code < 128 ? (ASCII[code] as number) : SIGNS.letter;
    if (sign !== SPACE) {
      signs |= sign;
      if (code === HYPHEN && (at === start || text.charCodeAt(at - 1) === code)) signs |= SIGNS.option;
      if (code <= COLON && (code === DOT || code === HYPHEN || code === COLON)) separators += 1;
      row = sign & IN_ROW && code < 128 ? row + 1 : 0;
      if (row > long) long = row;
      continue;
    }
    if (separators > 1) signs |= SIGNS.parts;
    if (signs & MARKS || long >= MIN_LONG) marks.push({ start, end: at, signs, long });
    start = at + 1;
    signs = 0;
    row = 0;
    long = 0;
    separators = 0;
  }
  return marks;
}

/** Digits with at most three separators between two of them. */
export interface Run extends Range {
  digits: number;
  /** Dots within. */
  dots: number;
}

/** No number of a person has fewer. */
const MIN_DIGITS = 4;
const MAX_SEPARATORS = 3;
const SEPARATORS = new Set([...' \t\r\n./()-'].map((sign) => sign.charCodeAt(0)));
/** Years of a Japanese era have two digits. */
const YEAR = '年';
const DIGIT = /\d/g;

export const isDigit = (code: number): boolean => code >= 48 && code <= 57;

/** Returns the numbers in order. A loop, since a pattern's memory grows with the length of what it matches. */
export function numbersIn(text: string): Run[] {
  const runs: Run[] = [];
  DIGIT.lastIndex = 0;
  while (DIGIT.test(text)) {
    const start = DIGIT.lastIndex - 1;
    let end = start + 1;
    let digits = 1;
    let dots = 0;
    for (let at = end; at - end <= MAX_SEPARATORS; at += 1) {
      const code = text.charCodeAt(at);
      if (code === DOT) dots += 1;
      if (isDigit(code)) {
        digits += 1;
        end = at + 1;
      } else if (!SEPARATORS.has(code)) break;
    }
    if (digits >= MIN_DIGITS || text[end] === YEAR) runs.push({ start, end, digits, dots });
    DIGIT.lastIndex = end;
  }
  return runs;
}
