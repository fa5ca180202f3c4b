/** Sees the pieces of a streamed reply as the application reads them. */
import type { Call, Ended } from './call.ts';
import { errorOf } from './error.ts';
import type { Sender } from './sender.ts';

/** A stream that the application forgets, read or not, has ended. */
const forgotten = new FinalizationRegistry<(ended: Ended) => void>((end) => end('left'));

/**
 * Makes the iterators of a stream tell the call what they yield. The stream is the same object as before, and each piece reaches the
 * application when it comes.
 */
export function watchStream(stream: AsyncIterable<object>, call: Call, sender: Sender): void {
  const end = (ended: Ended, error?: unknown): void => {
    if (call.ended !== undefined) return;
    call.end(ended);
    if (error !== undefined) {
      const told = errorOf(error, call.status);
      if (told.kind === 'aborted') call.ended = 'left';
      else call.error = told;
    }
    sender.add(call);
  };
  const quietly = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      sender.failed(error);
    }
  };
  sender.open.add(call);
  sender.grown(call);
  const iterate = stream[Symbol.asyncIterator];
  const see = ({ done, value }: IteratorResult<{ PayloadPart?: { Bytes?: Uint8Array } }>): void => {
    if (done) end('whole');
    else if (value?.PayloadPart?.Bytes !== undefined && call.ended === undefined) {
      call.piece(value.PayloadPart.Bytes);
      sender.grown(call);
    }
  };
  Object.defineProperty(stream, Symbol.asyncIterator, {
    configurable: true,
    writable: true,
    // Only the iterator holds the stream: nothing that outlives the application's use of it.
    value(this: AsyncIterable<object>) {
      const inner = iterate.call(this) as AsyncIterator<object, unknown, unknown>;
      const stream = this;
      const outer: AsyncIterator<object, unknown, unknown> & AsyncIterable<object> & { stream: object } = {
        next: async (...args) => {
          try {
            const result = await inner.next(...args);
            quietly(() => see(result as IteratorResult<object>));
            return result;
          } catch (error) {
            quietly(() => end('broke', error));
            throw error;
          }
        },
        return: async (value) => {
          quietly(() => end('left'));
          return inner.return ? inner.return(value) : { done: true, value };
        },
        throw: async (error) => {
          quietly(() => end('left'));
          if (inner.throw) return inner.throw(error);
          throw error;
        },
        [Symbol.asyncIterator]: () => outer,
        stream,
      };
      return outer;
    },
  });
  forgotten.register(stream, (ended) => quietly(() => end(ended)));
}
