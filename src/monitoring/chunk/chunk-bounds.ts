/** The size of the work for one child of the Map. */

/**
 * The bounds of a chunk.
 *
 * Lines: one judge call answers all scorers of a capture in about 10 s, and a Lambda keeps about 16 calls in flight. So
 * 500 lines take 500 / 16 × 10 s = 313 s, well within the 15 minutes of a Lambda even if half the calls are throttled.
 *
 * Bytes: decoding keeps the raw line, its text, the parsed payload and the serialized trace in memory. That is four to
 * seven times a line of text, and 250 bytes per value where a line has many values. Lines are weighed one by one
 * (captures/weight.ts), and only as many are kept in memory as there is room for. A single line over the bound is a
 * separate chunk.
 */
export const CHUNK_BOUNDS = { maxLines: 500, maxBytes: 8 * 1024 * 1024 };
