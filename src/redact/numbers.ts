/** Finds the digits of a text once, for all forms of numbers. */

/** Digits with at most three separators between two of them. */
export interface Run {
  start: number;
  end: number;
  digits: number;
}

/** No number of a person has fewer. */
const MIN_DIGITS = 4;
const MAX_SEPARATORS = 3;
const SEPARATORS = new Set([...' \t\r\n./()-'].map((sign) => sign.charCodeAt(0)));
/** Years of a Japanese era have two digits. */
const YEAR = '年';
const DIGIT = /\d/g;

export const isDigit = (code: number): boolean => code >= 48 && code <= 57;

/** Returns the runs in order. A loop, since a pattern's memory grows with the length of what it matches. */
export function numbersIn(text: string): Run[] {
  const runs: Run[] = [];
  DIGIT.lastIndex = 0;
  while (DIGIT.test(text)) {
    const start = DIGIT.lastIndex - 1;
    let end = start + 1;
    let digits = 1;
    for (let at = end; at - end <= MAX_SEPARATORS; at += 1) {
      const code = text.charCodeAt(at);
      if (isDigit(code)) {
        digits += 1;
        end = at + 1;
      } else if (!SEPARATORS.has(code)) break;
    }
    if (digits >= MIN_DIGITS || text[end] === YEAR) runs.push({ start, end, digits });
    DIGIT.lastIndex = end;
  }
  return runs;
}
