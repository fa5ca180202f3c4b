/** The size of one part of a plan, and its limits for files that are left out. */

/** Time reserved to finish the upload of the manifest and to write the plan’s receipt. */
export const FINISH_RESERVE_MS = 30_000;

/** Maximum number of chunks in a part. At about 300 bytes for a chunk of one file, its manifest stays under 10 MB. */
export const MAX_PART_CHUNKS = 30_000;

/**
 * The chunks of a part run while the next part is planned. So the first part is planned for half a minute, to start the
 * work early, and each further part three times as long as the previous part: reading lines takes a fraction of the
 * time of judging or writing them.
 *
 * @returns milliseconds
 */
const partMs = (part: number): number => 30_000 * 3 ** part;

/** A part of fewer chunks ends without them only for lack of time: each further part is another Map Run. */
const LEAST_PART_CHUNKS = 50;

/**
 * Whether a part contains enough chunks to plan the next part while they run. The last chunks of a part run alone, so a
 * part has enough chunks to fill all functions that may run at once, unless planning these takes as long again.
 *
 * @param planned number of chunks so far
 * @param ms time that planning them took
 * @param functions number of functions that may run at once; 0: any number
 */
export const isEnoughForPart = (part: number, planned: number, ms: number, functions: number): boolean => {
  if (planned < LEAST_PART_CHUNKS || ms < partMs(part)) return false;
  return functions === 0 || planned % functions === 0 || ms >= 2 * partMs(part);
};

/** Maximum size of a part’s manifest in bytes, if its chunks have many files. It is read completely. */
export const MAX_PART_BYTES = 32_000_000;

/**
 * Maximum size of a line of the manifest in bytes, about ten files. Step Functions passes on 256 KiB, but it also logs
 * the line with each event of the chunk: from 2 KB on, an object that is written once and read three times costs less.
 */
export const MAX_LINE_BYTES = 4_000;

/** If more files than this fail in one part, the files are not the cause, unless each is archived or gone. */
export const MAX_FAILED_FILES = 1_000;

/** The last retries of planning do without files that cannot be read, up to this number. More mean an outage of S3. */
export const LAST_RETRIES_FROM = 4;
export const MAX_UNAVAILABLE_FILES = 20;
