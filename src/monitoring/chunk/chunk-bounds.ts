/**
 * How much one child of the Map handles.
 *
 * Lines: one judge call answers all scorers of a capture in some 10 s, and a Lambda keeps some 16 calls under way, so
 * 500 lines are 500 / 16 × 10 s = 313 s, well within the 15 minutes of a Lambda even when half the calls are throttled.
 *
 * Bytes: decoding holds the raw line, its text, the parsed payload and the serialised trace, four to seven times a line
 * of text, and 250 bytes a value where there are many. What lines become is weighed one by one (capture/weight.ts): so
 * many of them are held as there is room for. A single line over the bound is a chunk of its own.
 */
export const CHUNK_BOUNDS = { maxLines: 500, maxBytes: 8 * 1024 * 1024 };

/**
 * How often in a row a function may be killed on a part of a chunk. One line of the longest chunk stands alone after
 * ⌈log₂ lines⌉ halvings, and is condemned by one kill more; a function that is killed twice after that has another fault.
 */
export const MOST_KILLS = Math.ceil(Math.log2(CHUNK_BOUNDS.maxLines)) + 2;
