/** Parses AWS's event-stream framing (`application/vnd.amazon.eventstream`) incrementally, and verifies its checksums. */
import { crc32 } from 'node:zlib';

interface EventStreamMessage {
  headers: Record<string, string>;
  /** Valid only during the call. */
  payload: Buffer;
}

export class BadEventStream extends Error {
  override readonly name = 'BadEventStream';
}

/** Total length, header length, checksum of the two. */
const PRELUDE_BYTES = 12;
const CHECKSUM_BYTES = 4;
/** AWS limits a message to 24 MB. */
const MAX_MESSAGE_BYTES = 24 * 1024 * 1024;

/** Bytes of a header's value by its type. Values of types 6 and 7 begin with their length. */
const FIXED_VALUE_BYTES: Record<number, number> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 };
const BYTES_TYPE = 6;
const STRING_TYPE = 7;

function parseHeaders(bytes: Buffer): Record<string, string> {
  const headers: Record<string, string> = {};
  let at = 0;
  while (at < bytes.length) {
    const nameLength = bytes.readUInt8(at);
    const name = bytes.toString('utf8', at + 1, at + 1 + nameLength);
    at += 1 + nameLength;
    const type = bytes.readUInt8(at++);
    if (type === STRING_TYPE || type === BYTES_TYPE) {
      const length = bytes.readUInt16BE(at);
      headers[name] = bytes.toString('utf8', at + 2, at + 2 + length);
      at += 2 + length;
    } else {
      const length = FIXED_VALUE_BYTES[type];
      if (length === undefined) throw new BadEventStream(`header ${name} is of the unknown type ${type}`);
      at += length;
    }
  }
  return headers;
}

export class EventStreamParser {
  readonly #onMessage: (message: EventStreamMessage) => void;
  /** The pieces of an incomplete message. They are joined once, when enough of them have arrived. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #needed = PRELUDE_BYTES;

  constructor(onMessage: (message: EventStreamMessage) => void) {
    this.#onMessage = onMessage;
  }

  /** @throws BadEventStream when a checksum or a length is wrong. */
  feed(bytes: Buffer): void {
    let rest = bytes;
    if (this.#heldBytes > 0) {
      this.#hold(bytes);
      if (this.#heldBytes < this.#needed) return;
      rest = Buffer.concat(this.#held);
    }
    this.#held = [];
    this.#heldBytes = 0;
    this.#needed = PRELUDE_BYTES;
    while (rest.length >= PRELUDE_BYTES) {
      const total = rest.readUInt32BE(0);
      const headerBytes = rest.readUInt32BE(4);
      if (crc32(rest.subarray(0, 8)) !== rest.readUInt32BE(8))
        throw new BadEventStream('the prelude’s checksum is wrong');
      if (total > MAX_MESSAGE_BYTES || total < PRELUDE_BYTES + headerBytes + CHECKSUM_BYTES) {
        throw new BadEventStream(`a message of ${total} bytes with ${headerBytes} bytes of headers`);
      }
      this.#needed = total;
      if (rest.length < total) break;
      const end = total - CHECKSUM_BYTES;
      if (crc32(rest.subarray(0, end)) !== rest.readUInt32BE(end))
        throw new BadEventStream('a message’s checksum is wrong');
      const headers = parseHeaders(rest.subarray(PRELUDE_BYTES, PRELUDE_BYTES + headerBytes));
      this.#onMessage({ headers, payload: rest.subarray(PRELUDE_BYTES + headerBytes, end) });
      rest = rest.subarray(total);
      this.#needed = PRELUDE_BYTES;
    }
    this.#hold(rest);
  }

  #hold(bytes: Buffer): void {
    if (bytes.length > 0) this.#held.push(Buffer.from(bytes));
    this.#heldBytes += bytes.length;
  }

  /** Whether the stream ended between two messages. */
  get complete(): boolean {
    return this.#heldBytes === 0;
  }
}
