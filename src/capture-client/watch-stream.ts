/** Sees the pieces of a streamed reply as the application reads them. */
import { type Call, endOf } from './call.ts';
import type { Sender } from './sender.ts';

type Piece = { PayloadPart?: { Bytes?: Uint8Array } };

/** A stream that the application forgets, read or not, has ended. */
const forgotten = new FinalizationRegistry<{ call: Call; sender: Sender }>(({ call, sender }) =>
  sender.end(call, 'left', undefined, call.seenMs ?? call.client.firstByteMs),
);

/**
 * Makes the iterators of a stream tell what they yield. The stream is the same object as before, and each piece reaches the application
 * when it comes. Nothing here but the iterators holds the stream.
 */
export function watchStream(stream: AsyncIterable<object>, call: Call, sender: Sender): void {
  const iterate = stream[Symbol.asyncIterator];
  Object.defineProperty(stream, Symbol.asyncIterator, {
    configurable: true,
    writable: true,
    value(this: AsyncIterable<Piece>) {
      return watched(this, iterate.call(this) as AsyncIterator<Piece, unknown>, call, sender);
    },
  });
  // No closure: it would hold `iterate`, and by it the reply's messages, until the garbage collector has told of the stream.
  forgotten.register(stream, { call, sender });
}

/** @param _stream it lives as long as its iterator */
async function* watched(_stream: object, inner: AsyncIterator<Piece, unknown>, call: Call, sender: Sender) {
  try {
    for (;;) {
      const { done, value } = await inner.next();
      if (done) {
        sender.end(call, 'whole');
        return value;
      }
      const bytes = value.PayloadPart?.Bytes;
      if (bytes !== undefined && call.client.ended === undefined) {
        sender.quietly(() => {
          call.piece(bytes.byteLength);
          sender.add(call.reply, bytes);
        });
      }
      yield value;
    }
  } catch (error) {
    sender.quietly(() => sender.end(call, ...endOf(call, error)));
    throw error;
  } finally {
    // Does nothing but where the application has left.
    sender.end(call, 'left');
    await inner.return?.();
  }
}
