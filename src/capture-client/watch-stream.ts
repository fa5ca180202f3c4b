/** Sees the pieces of a streamed reply as the application reads them. */
import type { Call } from './call.ts';
import { errorOf } from './error.ts';
import type { Sender } from './sender.ts';

type Piece = { PayloadPart?: { Bytes?: Uint8Array } };
type Pieces = AsyncIterator<Piece, unknown, unknown>;

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
      return watched(iterate.call(this) as Pieces, this, call, sender);
    },
  });
  forgotten.register(stream, () => sender.end(call, 'left'));
}

function watched(inner: Pieces, stream: object, call: Call, sender: Sender) {
  const saw = ({ done, value }: IteratorResult<Piece, unknown>): void => {
    const bytes = done ? undefined : (value as Piece)?.PayloadPart?.Bytes;
    if (done) sender.end(call, 'whole');
    else if (bytes !== undefined && call.client.ended === undefined) {
      call.piece(bytes);
      sender.memory.count(call);
    }
  };
  const broke = (error: unknown): void => {
    if (call.client.ended !== undefined) return;
    const told = errorOf(error, call.client.status);
    if (told.kind !== 'aborted') call.client.error = told;
    sender.end(call, told.kind === 'aborted' ? 'left' : 'broke');
  };
  const outer: Pieces & AsyncIterable<object> & { stream: object } = {
    stream,
    next: async (...args) => {
      try {
        const result = await inner.next(...args);
        sender.quietly(() => saw(result));
        return result;
      } catch (error) {
        sender.quietly(() => broke(error));
        throw error;
      }
    },
    return: async (value) => {
      sender.end(call, 'left');
      return inner.return ? inner.return(value) : { done: true, value };
    },
    throw: async (error) => {
      sender.end(call, 'left');
      if (inner.throw) return inner.throw(error);
      throw error;
    },
    [Symbol.asyncIterator]: () => outer,
  };
  return outer;
}
