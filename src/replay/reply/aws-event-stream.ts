/** Parses AWS's event-stream framing (`application/vnd.amazon.eventstream`) incrementally. */

import { crc32 } from 'node:zlib';
import { EventStreamCodec } from '@smithy/core/event-streams';
import { StreamReader } from '../../captures/times/stream-reader.ts';
import { MAX_KEPT_BYTES } from '../http/exchange.ts';

export class BadEventStream extends Error {
  override readonly name = 'BadEventStream';
}

/** Total length, header length, checksum of the two. */
const PRELUDE_BYTES = 12;
/** AWS limits a message to 24 MB. */
const MAX_MESSAGE_BYTES = 24 * 1024 * 1024;

/** Verifies the checksum of a message, too. */
const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString(),
  (text) => Buffer.from(text),
);

/** @returns `payload`: valid only during the call. @throws BadEventStream */
function messageOf(bytes: Buffer) {
  try {
    const { headers, body } = codec.decode(bytes);
    return { headers, payload: Buffer.from(body.buffer, body.byteOffset, body.byteLength) };
  } catch (error) {
    throw new BadEventStream((error as Error).message);
  }
}

export class EventStreamParser {
  readonly #onMessage: (message: ReturnType<typeof messageOf>) => void;
  /** The parts of an incomplete message. They are joined once, when enough of them have arrived. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #needed = PRELUDE_BYTES;

  constructor(onMessage: (message: ReturnType<typeof messageOf>) => void) {
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
      // Before the message is whole: a wrong length would wait for bytes that never come.
      if (crc32(rest.subarray(0, 8)) !== rest.readUInt32BE(8))
        throw new BadEventStream('the prelude’s checksum is wrong');
      if (total > MAX_MESSAGE_BYTES) throw new BadEventStream(`a message of ${total} bytes`);
      this.#needed = total;
      if (rest.length < total) break;
      this.#onMessage(messageOf(rest.subarray(0, total)));
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

// ---------------------------------------------------------------------------------------------------------- the reader
// Reads a stream in the frames of InvokeEndpointWithResponseStream.

/** Content type inside the runtime's frames, unless they have their own. */
const INNER_TYPE = 'text/event-stream';

/** Reads the content of the frames. */
export class SageMakerStreamReader extends StreamReader {
  /** An error that the service sent instead of the rest. */
  error: { type: string; message: string } | undefined;
  #at = 0;
  readonly #frames = new EventStreamParser(({ headers, payload }) => {
    const header = (name: string): string | undefined => headers[name]?.value.toString();
    if (header(':message-type') === 'event') {
      if (header(':event-type') === 'PayloadPart') super.piece(payload, this.#at);
      return;
    }
    const type = header(':exception-type') ?? header(':error-code') ?? 'StreamError';
    this.error = { type, message: header(':error-message') ?? payload.toString('utf8') };
  });

  /** @param contentType content type inside the frames */
  constructor(contentType: string = INNER_TYPE) {
    super(contentType, MAX_KEPT_BYTES);
  }

  override piece(bytes: Buffer, at: number): void {
    if (this.problem) return;
    this.#at = at;
    try {
      this.#frames.feed(bytes);
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }

  override end(): void {
    if (!this.problem && !this.#frames.complete) this.problem = 'the event stream stops inside a message';
    super.end();
  }
}
