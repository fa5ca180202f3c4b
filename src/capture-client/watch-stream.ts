/** Sees the pieces of a streamed reply as the application reads them. */
import type { Call } from './call.ts';
import { errorOf } from './error.ts';
import type { Sender } from './sender.ts';

type Piece = { PayloadPart?: { Bytes?: Uint8Array } };

/** A stream that the application forgets, read or not, has ended. */
const forgotten = new FinalizationRegistry<() => void>((end) => end());

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
  forgotten.register(stream, () => sender.end(call, 'left', call.seenMs ?? call.client.firstByteMs));
}

/** @param stream it lives as long as its iterator */
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
          sender.memory.add(call, call.reply, bytes);
        });
      }
      yield value;
    }
  } catch (error) {
    sender.quietly(() => broke(call, error, sender));
    throw error;
  } finally {
    // Does nothing but where the application has left.
    sender.end(call, 'left');
    await inner.return?.();
  }
}

function broke(call: Call, error: unknown, sender: Sender): void {
  if (call.client.ended !== undefined) return;
  const told = errorOf(error, call.client.status);
  const { errored, readableEnded } = call.socket ?? { readableEnded: true };
  const isLeft = told.kind === 'aborted' || (told.class === 'ECONNRESET' && !errored && !readableEnded);
  if (!isLeft) call.client.error = told;
  sender.end(call, isLeft ? 'left' : 'broke');
}
