/** Trims text at its end. A pattern that ends with `+$` restarts at every character, which takes quadratic time. */

/** Removes the characters at the end for which `isCut` is true. It receives one code point at a time. */
export function trimEndOf(text: string, isCut: (character: string) => boolean): string {
  let end = text.length;
  while (end > 0) {
    // The second half of a surrogate pair counts as the whole pair.
    const start = (text.codePointAt(end - 2) ?? 0) > 0xffff ? end - 2 : end - 1;
    if (!isCut(text.slice(start, end))) break;
    end = start;
  }
  return text.slice(0, end);
}
