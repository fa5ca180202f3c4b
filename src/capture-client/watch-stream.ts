/** Sees the pieces of a streamed reply as the application reads them. */
import { type Call, endOf } from './call.ts';
import type { Sender } from './sender.ts';

type Piece = { PayloadPart?: { Bytes?: Uint8Array } };

/** A stream that the application forgets, read or not, has ended. */
const forgotten = new FinalizationRegistry<{ call: Call; sender: Sender }>(({ call, sender }) =>
  sender.end(call, 'left', undefined, call.seenMs ?? call.client.firstByteMs),
);

/**
 * Makes the iterators of a stream report what they yield. The stream stays the same object, and each piece reaches the
 * application when it arrives. Only the iterators hold a reference to the stream.
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
  // Register without a closure: it would hold `iterate`, and through it the reply's messages, until the garbage
  // collector has reported the stream.
  forgotten.register(stream, { call, sender });
}

/**
 * Makes the iterator of a reply's body report whether the body may end at this point. The SDK accepts a body that ends
 * within a frame's length as complete.
 */
export function watchFrames(body: Partial<AsyncIterable<Uint8Array>>, call: Call): void {
  const iterate = body[Symbol.asyncIterator];
  if (iterate === undefined) return;
  const chunks = { [Symbol.asyncIterator]: () => iterate.call(body) };
  Object.defineProperty(body, Symbol.asyncIterator, { configurable: true, value: () => framed(chunks, call) });
}

async function* framed(chunks: AsyncIterable<Uint8Array>, call: Call) {
  const length: number[] = [];
  let frame = 0;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; ) {
      if (frame === 0) length.push(chunk[at++] ?? 0);
      if (length.length === 4) frame = Math.max(0, Buffer.from(length.splice(0)).readUInt32BE() - 4);
      const taken = Math.min(frame, chunk.length - at);
      frame -= taken;
      at += taken;
    }
    call.endsInFrame = length.length > 0;
    yield chunk;
  }
}

/** @param _stream it lives as long as its iterator */
async function* watched(_stream: object, inner: AsyncIterator<Piece, unknown>, call: Call, sender: Sender) {
  try {
    for (;;) {
      const { done, value } = await inner.next();
      if (done) {
        if (call.endsInFrame) sender.end(call, 'broke', { kind: 'stream', class: 'EOFError' });
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
    // Has an effect only if the application left the stream early.
    sender.end(call, 'left');
    await inner.return?.();
  }
}
