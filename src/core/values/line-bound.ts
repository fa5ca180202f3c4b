/** The bound on the length of a capture line. */

/** Maximum length of a line by default: a payload of 25 MB, as base64 on both sides, makes a line of 67 MB. */
export const DEFAULT_MAX_LINE_BYTES = 72 * 1024 * 1024;
