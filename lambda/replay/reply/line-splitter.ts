/** Lines of a reply that comes in pieces. */
import { MAX_KEPT_BYTES } from '../http/exchange.ts';

const LF = 0x0a;

/** The pieces of a line are joined once, when its end is there: byte by byte it costs no more than whole. */
export class LineSplitter {
  readonly #onLine: (line: string) => void;
  readonly #onTooLong: () => void;
  #held: Buffer[] = [];
  #heldBytes = 0;

  /** @param onTooLong called at the end of a line of which only the size is known: it is longer than what is kept */
  constructor(onLine: (line: string) => void, onTooLong: () => void) {
    this.#onLine = onLine;
    this.#onTooLong = onTooLong;
  }

  /** @param bytes valid during the call only */
  feed(bytes: Buffer): void {
    let at = 0;
    for (let newline = bytes.indexOf(LF); newline >= 0; newline = bytes.indexOf(LF, at)) {
      const last = bytes.subarray(at, newline);
      at = newline + 1;
      this.#finish(last);
    }
    if (at < bytes.length) this.#hold(bytes.subarray(at));
  }

  /** What has no line end is a line too. */
  end(): void {
    if (this.#heldBytes > 0) this.#finish(Buffer.alloc(0));
  }

  #hold(piece: Buffer): void {
    this.#heldBytes += piece.length;
    if (this.#heldBytes > MAX_KEPT_BYTES) this.#held = [];
    else this.#held.push(Buffer.from(piece));
  }

  #finish(last: Buffer): void {
    const [held, bytes] = [this.#held, this.#heldBytes + last.length];
    this.#held = [];
    this.#heldBytes = 0;
    if (bytes > MAX_KEPT_BYTES) this.#onTooLong();
    else this.#onLine((held.length === 0 ? last : Buffer.concat([...held, last])).toString('utf8'));
  }
}
