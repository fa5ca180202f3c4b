/** Text of others on one line, and without the control characters that a terminal would obey. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
export const singleLine = (text: string): string => text.replace(/[\s\x00-\x1f\x7f-\x9f]+/g, ' ');
