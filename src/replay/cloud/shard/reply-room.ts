/**
 * Accounts for the space on a shard's disk. Captures bound the size of requests, but nothing bounds the size of replies.
 * Replies without space are measured and compared but not kept, so that the disk never fills up and no measurement is lost.
 */
import { RECORD_FILE_BYTES, SHARD_FILE_BYTES, SHARD_FILES_PER_BYTE } from '../limits.ts';

/** Share of the disk that stays free for the file system and for buffered lines. */
const FREE_SHARE = 0.05;

/** Space that is used, and reserved for requests without lines so far. */
export class ReplyRoom {
  readonly #limit: number;
  readonly #shares: number[];
  #used = 0;
  /** Space for requests without lines so far, if their replies are as large as the captured ones. */
  #reserved: number;
  /** Replies that were not kept, and their bytes. */
  readonly notKept = { replies: 0, bytes: 0 };

  /**
   * @param freeBytes free space on the disk
   * @param capturedBytes size of each capture of the shard, in order
   */
  constructor(freeBytes: number, capturedBytes: readonly number[]) {
    // There would be no time to upload more than this to S3.
    this.#limit = Math.min(SHARD_FILE_BYTES, freeBytes * (1 - FREE_SHARE));
    this.#shares = capturedBytes.map((bytes) => RECORD_FILE_BYTES + bytes * SHARD_FILES_PER_BYTE);
    this.#reserved = this.#shares.reduce((sum, share) => sum + share, 0);
  }

  /** Counts lines that are written in any case. */
  wrote(bytes: number): void {
    this.#used += bytes;
  }

  /**
   * Takes space for a request and its reply. Call it once for each request.
   *
   * @param ordinal position of the request within the shard
   * @param bytes size of its lines with the reply
   * @returns whether these lines may be written. If not, write lines without the reply, and count them with `wrote`
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
