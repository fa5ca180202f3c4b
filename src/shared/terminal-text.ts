/** Puts foreign text on one line, without the control characters that a terminal would interpret. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this expression removes control characters
export const singleLine = (text: string): string => text.replace(/[\s\x00-\x1f\x7f-\x9f]+/g, ' ');
