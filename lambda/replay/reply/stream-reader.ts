/** Reads a streamed reply as it comes, noting when each piece of content arrived. */
import { type BodyReader, MAX_KEPT_BYTES } from '../http/exchange.ts';
import { parseJson } from '../json.ts';
import { EventStreamParser } from './aws-event-stream.ts';
import { deltaOf, errorOfEvent, joinToolCalls, type ReplyContent, type ToolCall, type Usage } from './content.ts';
import { EventSourceParser } from './event-source.ts';
import { LineSplitter } from './line-splitter.ts';

type Inner = 'unknown' | 'events' | 'lines' | 'text';

const DONE = '[DONE]';
const ERROR_EVENT = 'error';
/** Names of fields that server-sent events begin with; a comment has none. */
const FIELDS = ['', 'data', 'event', 'id', 'retry'];
const LONGEST_FIELD = 'event:'.length;
/** They tell the form, or it is text. */
const HEAD_BYTES = 64;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Takes the bytes of the reply: server-sent events, JSON lines, or plain text, by what they begin with. Times are
 * milliseconds of `performance.now()`.
 */
export class StreamReader implements BodyReader {
  /** When each piece with content arrived; where the reply is too large the last one's time stands for all further ones. */
  readonly contentAt: number[] = [];
  /** Pieces with content. */
  pieces = 0;
  /** It was larger than what is kept: what it said is not known, its times and its counts are. */
  tooLarge = false;
  #bytes = 0;
  /** When the first piece that is no reasoning arrived; NaN while there is none. */
  firstOutputAt = Number.NaN;
  events = 0;
  content: ReplyContent = { text: '' };
  /** The events themselves, where they are kept. */
  readonly raw: { at: number; data: string }[] = [];
  readonly #keepRaw: boolean;
  /** What the reply says to be events is read as that, however it begins. */
  readonly #said: boolean;
  /** Whether the reply said that it was complete; `undefined` for forms that do not say it. */
  ended: boolean | undefined;
  /** Why the stream is broken, in words. */
  problem: string | undefined;
  #inner: Inner = 'unknown';
  /** The first bytes, while they do not tell the form. */
  #head: Buffer = Buffer.alloc(0);
  readonly #calls = new Map<number, ToolCall>();
  #at = 0;
  #text: string[] = [];
  readonly #events = new EventSourceParser(
    (data, name) => this.#event(data, name),
    () => this.#add('', ' '),
  );
  readonly #lines = new LineSplitter(
    (line) => {
      if (line.trim() !== '') this.#event(line);
    },
    () => this.#add('', ' '),
  );
  readonly #decoder = new TextDecoder();

  /**
   * @param keepRaw keep every event as it came
   * @param said the reply's content type is that of server-sent events
   */
  constructor(keepRaw = false, said = false) {
    this.#keepRaw = keepRaw;
    this.#said = said;
  }

  piece(bytes: Buffer, at: number): void {
    this.#at = at;
    if (this.problem) return;
    this.#bytes += bytes.length;
    if (this.#bytes > MAX_KEPT_BYTES && !this.tooLarge) {
      this.tooLarge = true;
      this.#text = [];
      this.raw.length = 0;
      this.#calls.clear();
    }
    try {
      if (this.#inner === 'unknown') {
        this.#head = Buffer.concat([this.#head, bytes]);
        this.#begin(innerFormat(this.#head));
      } else this.#take(bytes);
    } catch (error) {
      // It came in the middle of the connection's work, where nobody else would take it.
      this.problem = `it cannot be read: ${(error as Error).name}`;
    }
  }

  #begin(format: Inner): void {
    this.#inner = format === 'text' && this.#said ? 'events' : format;
    if (this.#inner === 'unknown') return;
    const head = this.#head;
    this.#head = Buffer.alloc(0);
    this.#take(head.subarray(0, BOM.length).equals(BOM) ? head.subarray(BOM.length) : head);
  }

  #take(bytes: Buffer): void {
    if (this.#inner === 'events') this.#events.feed(bytes);
    else if (this.#inner === 'lines') this.#lines.feed(bytes);
    else if (this.#inner === 'text') this.#add(this.#decoder.decode(bytes, { stream: true }), '');
  }

  /** The reply is complete; returns what it said. */
  end(): ReplyContent {
    if (this.#inner === 'unknown' && this.#head.toString('latin1').trim() !== '') this.#begin('text');
    if (this.#inner === 'events') this.#events.end();
    if (this.#inner === 'lines') this.#lines.end();
    this.content.text = this.#text.join('');
    if (this.#calls.size > 0) this.content.toolCalls = [...this.#calls.values()];
    return this.content;
  }

  #event(data: string, name = ''): void {
    this.events++;
    if (this.#keepRaw && !this.tooLarge) this.raw.push({ at: this.#at, data });
    if (data.trim() === DONE) {
      this.ended = true;
      return;
    }
    if (name === ERROR_EVENT) {
      this.content.error = errorOfEvent(data);
      return;
    }
    let value: unknown;
    try {
      value = parseJson(data);
    } catch {
      this.#add(data, '');
      return;
    }
    const delta = deltaOf(value);
    if (delta.usage) this.content.usage = mergedUsage(this.content.usage, delta.usage);
    if (delta.finishReason) this.content.finishReason = delta.finishReason;
    if (delta.finishReason) this.ended = true;
    else if (saysItsEnd(value)) this.ended ??= false;
    if (delta.error) this.content.error = delta.error;
    const calls = delta.toolCalls ?? [];
    if (!this.tooLarge) joinToolCalls(this.#calls, calls);
    this.#add(
      delta.output,
      delta.reasoning,
      calls.some(({ name: tool, arguments: given }) => tool || given),
    );
  }

  #add(output: string, reasoning: string, calls = false): void {
    if (output === '' && reasoning === '' && !calls) return;
    this.pieces++;
    if (this.tooLarge && this.contentAt.length > 1) this.contentAt[this.contentAt.length - 1] = this.#at;
    else this.contentAt.push(this.#at);
    if (output === '' && !calls) return;
    if (Number.isNaN(this.firstOutputAt)) this.firstOutputAt = this.#at;
    if (output !== '' && !this.tooLarge) this.#text.push(output);
  }
}

/** OpenAI's and Anthropic's streams name the reason for their end. */
const saysItsEnd = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  ('choices' in value || ('type' in value && value.type === 'message_start'));

/** A stream may count its input at its beginning and its output at its end. */
function mergedUsage(before: Usage | undefined, now: Usage): Usage {
  if (!before || now.input !== undefined) return now;
  const { input } = before;
  const output = now.output ?? before.output;
  return { ...now, input, output, total: input === undefined ? now.total : input + (output ?? 0) };
}

/** What a reply's first bytes tell of its form; `unknown` while they may still be the beginning of a field's name. */
function innerFormat(bytes: Buffer): Inner {
  const from = bytes.subarray(0, BOM.length).equals(BOM) ? BOM.length : 0;
  const start = bytes.toString('latin1', from, from + HEAD_BYTES).trimStart();
  if (FIELDS.some((name) => start.startsWith(`${name}:`))) return 'events';
  if (start.startsWith('{')) return 'lines';
  const open =
    bytes.length < HEAD_BYTES && start.length < LONGEST_FIELD && FIELDS.some((name) => `${name}:`.startsWith(start));
  return open || BOM.subarray(0, bytes.length).equals(bytes) ? 'unknown' : 'text';
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
