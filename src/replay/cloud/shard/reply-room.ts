/**
 * Room on a shard's disk for what it gets. The captures bound what is sent, and nothing bounds what comes back: replies that
 * are much larger than the captured ones are measured and compared, and not kept where there is no room, so that the disk
 * never fills, and what was measured is never lost.
 */
import { RECORD_FILE_BYTES, SHARD_FILE_BYTES, SHARD_FILES_PER_BYTE } from '../limits.ts';

/** Kept of the disk for the file system itself, and for lines that wait to be written. */
const FREE_SHARE = 0.05;

export class ReplyRoom {
  readonly #limit: number;
  readonly #shares: number[];
  #used = 0;
  /** What requests that have no lines yet take, with replies as large as the captured ones. */
  #reserved: number;
  /** Replies that found no room, and their bytes. */
  readonly notKept = { replies: 0, bytes: 0 };

  /**
   * @param freeBytes of the disk
   * @param capturedBytes of each request of the shard, in their order
   */
  constructor(freeBytes: number, capturedBytes: readonly number[]) {
    // Beyond this there would be no time to put the files into S3.
    this.#limit = Math.min(SHARD_FILE_BYTES, freeBytes * (1 - FREE_SHARE));
    this.#shares = capturedBytes.map((bytes) => RECORD_FILE_BYTES + bytes * SHARD_FILES_PER_BYTE);
    this.#reserved = this.#shares.reduce((sum, share) => sum + share, 0);
  }

  /** Lines that are written whatever room there is. */
  wrote(bytes: number): void {
    this.#used += bytes;
  }

  /**
   * To be called once for each request, when its reply is there.
   *
   * @param ordinal of the request within the shard
   * @param bytes of its lines with the reply
   * @returns whether they may be written; else those without the reply, which are told to `wrote`
   */
  take(ordinal: number, bytes: number, replyBytes: number): boolean {
    this.#reserved -= this.#shares[ordinal] ?? 0;
    this.#shares[ordinal] = 0;
    if (this.#used + bytes + this.#reserved <= this.#limit) {
      this.#used += bytes;
      return true;
    }
    this.notKept.replies++;
    this.notKept.bytes += replyBytes;
    return false;
  }
}
