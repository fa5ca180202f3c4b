/** Reads a stream in the frames of InvokeEndpointWithResponseStream. */
import { StreamReader } from '../../captures/times/stream-reader.ts';
import { type BodyReader, MAX_KEPT_BYTES } from '../http/exchange.ts';
import { EventStreamParser } from './aws-event-stream.ts';

/** Content type inside the runtime's frames, unless they have their own. */
const INNER_TYPE = 'text/event-stream';

/** Reads what is inside the frames. */
export class SageMakerStreamReader implements BodyReader {
  readonly inner: StreamReader;
  /** An error that the service sent instead of the rest. */
  error: { type: string; message: string } | undefined;
  #at = 0;
  readonly #frames = new EventStreamParser(({ headers, payload }) => {
    const header = (name: string): string | undefined => headers[name]?.value.toString();
    if (header(':message-type') === 'event') {
      if (header(':event-type') === 'PayloadPart') this.inner.piece(payload, this.#at);
      return;
    }
    const type = header(':exception-type') ?? header(':error-code') ?? 'StreamError';
    this.error = { type, message: header(':error-message') ?? payload.toString('utf8') };
  });

  /** @param contentType content type inside the frames */
  constructor(contentType: string = INNER_TYPE) {
    this.inner = new StreamReader(contentType, MAX_KEPT_BYTES);
  }

  piece(bytes: Buffer, at: number): void {
    if (this.inner.problem) return;
    this.#at = at;
    try {
      this.#frames.feed(bytes);
    } catch (error) {
      this.inner.problem = (error as Error).message;
    }
  }

  end(): void {
    if (!this.inner.problem && !this.#frames.complete) this.inner.problem = 'the event stream stops inside a message';
    this.inner.end();
  }
}
