/**
 * Puts foreign text on one line, without what a terminal would interpret: control characters, and those that reverse the
 * direction of the text after them.
 */
export const singleLine = (text: string): string => text.replace(/[\s\p{Cc}\u202a-\u202e\u2066-\u2069]+/gu, ' ');
