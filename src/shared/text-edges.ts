/** Cutting what a text ends with. A pattern that ends with `+$` begins anew at each character: it is quadratic. */

/** The text without the characters at its end that `isCut` names; it is asked about one code point at a time. */
export function trimEndOf(text: string, isCut: (character: string) => boolean): string {
  let end = text.length;
  while (end > 0) {
    // The second half of a surrogate pair stands for the whole of it.
    const start = (text.codePointAt(end - 2) ?? 0) > 0xffff ? end - 2 : end - 1;
    if (!isCut(text.slice(start, end))) break;
    end = start;
  }
  return text.slice(0, end);
}
