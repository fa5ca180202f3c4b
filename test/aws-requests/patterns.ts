/**
 * The patterns of the models are Java's, and a value must match as a whole. They are translated where JavaScript differs. A
 * pattern that is not understood is named, and its values are not checked.
 */

/** What Java writes differently. */
const REPLACED: [RegExp, string][] = [
  [/\\A/g, '^'],
  [/\\[zZ]/g, '$'],
  [/\[\\p\{Print\}\]/g, '[\\x20-\\x7E]'],
  [/\\p\{Print\}/g, '[\\x20-\\x7E]'],
  [/\[\\p\{Graph\}\]/g, '[\\x21-\\x7E]'],
  [/\\p\{Graph\}/g, '[\\x21-\\x7E]'],
];
/** Means another thing in JavaScript, or nothing: intersections of classes, POSIX classes, quotations, `\h` and the like. */
const DIFFERENT = /&&|\[\[|\\[QEGhHRXZ]|\\p\{(?:Alnum|Alpha|Digit|Punct|Is\w+|In\w+|java\w+)\}/;
/** A letter behind a backslash that means the same in both languages without Unicode mode. */
const UNKNOWN_ESCAPE = /\\(?:\\|[^A-Za-z]|[bBdDfnrsStuvwWx])/g;

const translated = new Map<string, RegExp | undefined>();

/** @returns the expression for a whole value, or `undefined` if the pattern cannot be translated */
export function wholeValue(pattern: string): RegExp | undefined {
  if (!translated.has(pattern)) translated.set(pattern, translate(pattern));
  return translated.get(pattern);
}

/** The patterns that were met and could not be translated. */
export const untranslatedPatterns = (): string[] =>
  [...translated].filter(([, expression]) => expression === undefined).map(([pattern]) => pattern);

function translate(pattern: string): RegExp | undefined {
  if (DIFFERENT.test(pattern)) return undefined;
  const [, flags = '', rest = pattern] = /^\(\?([is]+)\)(.*)$/s.exec(pattern) ?? [];
  let text = rest;
  for (const [java, here] of REPLACED) text = text.replace(java, here);
  // Within another class, the replacement would be read as its characters.
  if (/\[[^\]]*\[\\x2/.test(text)) return undefined;
  const whole = `^(?:${text})$`;
  try {
    return new RegExp(whole, `u${flags}`);
  } catch {
    // Unicode mode forbids escapes that Java allows, such as `\-`; without it, unknown ones would lose their backslash.
    if (/\\p|\\[a-zA-Z]/.test(text.replace(UNKNOWN_ESCAPE, ''))) return undefined;
  }
  try {
    return new RegExp(whole, flags);
  } catch {
    return undefined;
  }
}
