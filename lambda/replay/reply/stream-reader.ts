/** Reads a streamed reply as it comes, noting when each piece of content arrived. */
import type { BodyReader } from '../http/exchange.ts';
import { EventStreamParser } from './aws-event-stream.ts';
import { deltaOf, type ReplyContent } from './content.ts';
import { EventSourceParser } from './event-source.ts';

type Inner = 'unknown' | 'events' | 'lines' | 'text';

const DONE = '[DONE]';

/**
 * Takes the bytes of the reply: server-sent events, JSON lines, or plain text, by what they begin with. Times are
 * milliseconds of `performance.now()`.
 */
export class StreamReader implements BodyReader {
  /** When each piece with content arrived. */
  readonly contentAt: number[] = [];
  /** When the first piece that is no reasoning arrived; NaN while there is none. */
  firstOutputAt = Number.NaN;
  events = 0;
  content: ReplyContent = { text: '' };
  /** The events themselves, where they are kept. */
  readonly raw: { at: number; data: string }[] = [];
  readonly #keepRaw: boolean;
  /** Why the stream is broken, in words. */
  problem: string | undefined;
  #inner: Inner = 'unknown';
  #at = 0;
  #text: string[] = [];
  #partialLine = '';
  readonly #events = new EventSourceParser((data) => this.#event(data));
  readonly #decoder = new TextDecoder();

  /** @param keepRaw keep every event as it came */
  constructor(keepRaw = false) {
    this.#keepRaw = keepRaw;
  }

  piece(bytes: Buffer, at: number): void {
    this.#at = at;
    if (this.#inner === 'unknown') this.#inner = innerFormat(bytes);
    if (this.#inner === 'events') this.#events.feed(bytes);
    else if (this.#inner === 'lines') this.#lines(this.#decoder.decode(bytes, { stream: true }));
    else if (this.#inner === 'text') this.#take(this.#decoder.decode(bytes, { stream: true }), '');
  }

  /** The reply is complete; returns what it said. */
  end(): ReplyContent {
    if (this.#inner === 'events') this.#events.end();
    if (this.#inner === 'lines' && this.#partialLine.trim() !== '') this.#event(this.#partialLine);
    this.content.text = this.#text.join('');
    return this.content;
  }

  #lines(text: string): void {
    const lines = (this.#partialLine + text).split('\n');
    this.#partialLine = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') this.#event(line);
  }

  #event(data: string): void {
    this.events++;
    if (this.#keepRaw) this.raw.push({ at: this.#at, data });
    if (data.trim() === DONE) return;
    let value: unknown;
    try {
      value = JSON.parse(data);
    } catch {
      this.#take(data, '');
      return;
    }
    const delta = deltaOf(value);
    if (delta.usage) this.content.usage = delta.usage;
    if (delta.finishReason) this.content.finishReason = delta.finishReason;
    if (delta.error) this.content.error = delta.error;
    this.#take(delta.output, delta.reasoning);
  }

  #take(output: string, reasoning: string): void {
    if (output === '' && reasoning === '') return;
    this.contentAt.push(this.#at);
    if (output === '') return;
    if (Number.isNaN(this.firstOutputAt)) this.firstOutputAt = this.#at;
    this.#text.push(output);
  }
}

function innerFormat(bytes: Buffer): Inner {
  const start = bytes.toString('latin1', 0, 64).trimStart();
  if (start === '') return 'unknown';
  if (/^(data|event|id|retry)?:/.test(start)) return 'events';
  return start.startsWith('{') ? 'lines' : 'text';
}

/** The same inside the frames of InvokeEndpointWithResponseStream. */
export class SageMakerStreamReader implements BodyReader {
  readonly inner: StreamReader;
  #at = 0;
  readonly #frames = new EventStreamParser(({ headers, payload }) => {
    if (headers[':message-type'] === 'event') {
      if (headers[':event-type'] === 'PayloadPart') this.inner.piece(payload, this.#at);
      return;
    }
    const type = headers[':exception-type'] ?? headers[':error-code'] ?? 'StreamError';
    const message = headers[':error-message'] ?? payload.toString('utf8');
    this.inner.content.error = { type, message };
  });

  /** @param keepRaw keep every event as it came */
  constructor(keepRaw = false) {
    this.inner = new StreamReader(keepRaw);
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

  end(): ReplyContent {
    if (!this.inner.problem && !this.#frames.complete) this.inner.problem = 'the event stream stops inside a message';
    return this.inner.end();
  }
}
