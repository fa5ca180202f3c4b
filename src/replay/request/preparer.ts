/** Prepares requests for sending: reads them, links them to conversations, and encodes them for the target. */

import { randomUUID } from 'node:crypto';
import type { ChatMessage, ExchangeFacts } from '../../captures/types.ts';
import { PipelineError } from '../../core/errors/errors.ts';
import { Random } from '../../core/values/random.ts';
import type { ReplayOptions } from '../options.ts';
import { bytesIn, type ReplyContent, readReplyContent, timed } from '../reply/content.ts';
import type { ScheduledEntry } from '../schedule/timing.ts';
import { unreadable } from '../source/peek.ts';
import type { RangeReader } from '../source/range-reader.ts';
import type { OnSkipped, SourceFile } from '../source/types.ts';
import { type Keep, keepMasked, type Masking } from './keep.ts';
import { type LiteralRequest, literalRequest } from './literal.ts';
import type { Encoded, RequestIdentity, Target } from './target.ts';

/** The source of a token count: the target, the captured endpoint, an estimate from the text, or the chunks of a stream. */
export type TokenSource = 'server' | 'captured' | 'estimate' | 'chunks';

/** A request that is ready to be written to a connection. */
export interface PreparedRequest
  extends Pick<LiteralRequest, 'contentType' | 'streaming' | 'eventId' | 'capturedTimes'>,
    Pick<RequestIdentity, 'pass' | 'requestId' | 'conversationId'>,
    Pick<ScheduledEntry, 'number'>,
    Pick<ExchangeFacts, 'file' | 'bucket' | 'line' | 'capturedTraceId'>,
    Encoded {
  /** Milliseconds after the clock's start. NaN: as soon as a connection is free. */
  dueMs: number;
  /** Present when the request expires, as signed requests do: its creation time, and a function that encodes it again. */
  renewal?: { since: number; encode(): Encoded | Promise<Encoded> };
  /** The body is a JSON object. */
  isJson: boolean;
  /** Cancel the request this long after it was sent, to measure how the target handles canceled requests. */
  cancelAfterMs?: number;
  capturedInferenceId?: string;
  /** The file as the reader identifies it, and the position of the line's bytes; `end` is inclusive. */
  place: { source: SourceFile; start: number; end: number };
  capturedMs: number;
  /** Length of the input, for requests with text. */
  inputTokens?: { count: number; source: TokenSource };
  /** Maximum number of output tokens that the request allows, above 0. */
  outputLimit?: number;
  /** The captured endpoint's reply, kept for the comparison, or because it is empty. */
  captured?: ReplyContent;
  /** Set where captures are masked. */
  keep?: Keep | undefined;
}

export interface PreparerOptions extends Masking {
  run: string;
  files: readonly SourceFile[];
  /** Reads the captured lines; closed at the end. */
  reader: RangeReader;
  target: Target;
  options: ReplayOptions;
  /** Keep the captured replies for a comparison. */
  keepCaptured: boolean;
  /** Returns MLflow's trace id of a captured line, if replays are linked to captured traces. */
  traceIdOf?: (line: Buffer) => string;
  onSkipped: OnSkipped;
}

/** A longer captured reply counts as not empty without reading it: reading all of them would slow down the sender. */
const MAX_BLANK_BYTES = 16 * 1024;

/** Turns places in capture files into requests that are ready to send. */
export class Preparer {
  readonly #options: PreparerOptions;
  readonly #keep: Keep | undefined;
  readonly #random: Random;

  constructor(options: PreparerOptions) {
    this.#options = options;
    this.#keep = keepMasked(options);
    this.#random = new Random(options.options.randomSeed);
  }

  /** @returns `undefined` for a record that cannot be sent, which is reported. */
  async prepare(scheduled: ScheduledEntry): Promise<PreparedRequest | undefined> {
    const { entry, pass, number } = scheduled;
    const { files, reader, target, run } = this.#options;
    const file = files[entry.file] as SourceFile;
    let line: Buffer;
    try {
      const found = reader.read(entry);
      line = Buffer.isBuffer(found) ? found : await found;
    } catch (error) {
      // A file that was changed or deleted since the schedule was made does not end the replay of the others.
      if (!(error instanceof PipelineError)) throw error;
      this.#options.onSkipped({ file: file.name, line: entry.line, reason: error.name, message: error.message });
      return undefined;
    }
    const content = this.#read(line);
    if (content.kind === 'skipped') {
      const { reason, message } = content;
      this.#options.onSkipped({ file: file.name, line: entry.line, reason, message }, pass);
      return undefined;
    }
    const { request, captured, tokens } = content;
    const requestId = randomUUID();
    const eventKey = request.eventId ?? `${file.name}:${entry.line}`;
    const conversationId = `${this.#masked(eventKey)}${pass === 0 ? '' : `#${pass}`}`;
    const identity = { run, eventKey, pass, requestId, conversationId };
    const encoded = target.encode(request, identity);
    const { wire, bodyAt, inferenceId } = encoded instanceof Promise ? await encoded : encoded;
    return {
      pass,
      number,
      dueMs: scheduled.dueMs,
      wire,
      bodyAt,
      ...(target.goodForMs === undefined ? {} : { renewal: this.#renewal(request, identity, wire, bodyAt) }),
      contentType: request.contentType,
      isJson: request.json !== undefined,
      streaming: request.streaming,
      cancelAfterMs: this.#cancelAfter(),
      conversationId,
      requestId,
      eventId: this.#masked(request.eventId),
      capturedInferenceId: this.#masked(request.inferenceId),
      inferenceId,
      file: file.name,
      bucket: file.bucket,
      line: entry.line,
      place: { source: file, start: entry.start, end: entry.start + entry.length - 1 },
      capturedMs: entry.timeMs,
      capturedTimes: request.capturedTimes,
      inputTokens: tokens,
      outputLimit: outputLimit(request),
      capturedTraceId: this.#options.traceIdOf?.(line),
      captured: this.#options.keepCaptured || captured?.blank ? captured : undefined,
      keep: this.#keep,
    };
  }

  /** Does all work that depends on the record's content. An error skips only this record. */
  #read(line: Buffer) {
    try {
      return timed(line.length, () => this.#readLine(line));
    } catch (error) {
      return unreadable(error);
    }
  }

  #readLine(line: Buffer) {
    const literal = literalRequest(line, this.#options.options);
    if (literal.kind === 'skipped') return literal;
    const { request } = literal;
    // Read the captured reply only if needed: for the comparison, for the tokens of a text, or because it may be empty.
    // An empty reply to the same request is then no error of the target.
    const isRead =
      this.#options.keepCaptured || request.prompt !== undefined || bytesIn(request.capturedReply) <= MAX_BLANK_BYTES;
    const captured = isRead ? capturedReply(request) : undefined;
    return { ...literal, captured, tokens: inputTokens(request, captured) };
  }

  /** Masks ids, because callers of the endpoint may choose them. */
  #masked<Id extends string | undefined>(id: Id): Id | string {
    return (id && this.#keep?.id(id)) ?? id;
  }

  /** Keeps nothing in memory beyond the request on the wire. */
  #renewal({ contentType, streaming }: LiteralRequest, identity: RequestIdentity, wire: Buffer, bodyAt: number) {
    const { target } = this.#options;
    const request = { body: wire.subarray(bodyAt), contentType, streaming };
    return { since: performance.now(), encode: () => target.encode(request, identity) };
  }

  #cancelAfter(): number | undefined {
    const { requestCancellationRate, requestCancellationDelay } = this.#options.options;
    if (requestCancellationRate === 0) return undefined;
    return this.#random.next() * 100 < requestCancellationRate ? requestCancellationDelay * 1000 : undefined;
  }
}

/** Returns the captured endpoint's reply, or `undefined` when it was not captured. */
export const capturedReply = ({ capturedReply: reply, capturedRequest }: LiteralRequest): ReplyContent | undefined =>
  reply === undefined || reply === null ? undefined : readReplyContent(reply, capturedRequest);

/** Returns the message that answered a request. */
export const replyMessage = (content: ReplyContent | undefined): ChatMessage | undefined =>
  content && !content.error && (content.text !== '' || content.toolCalls)
    ? { role: 'assistant', content: content.text, tool_calls: content.toolCalls }
    : undefined;

function inputTokens(request: LiteralRequest, captured: ReplyContent | undefined): PreparedRequest['inputTokens'] {
  if (captured?.usage?.inputTokens !== undefined) return { count: captured.usage.inputTokens, source: 'captured' };
  const estimate = estimateInputTokens(request);
  return estimate === undefined ? undefined : { count: estimate, source: 'estimate' };
}

// ---------------------------------------------------------------------------------------------------- token counts
// Estimates, for requests whose endpoint does not count tokens. Every output labels them as estimates.

/** English text has about four characters per token in current tokenizers. */
const CHARACTERS_PER_TOKEN = 4;
/** Role and separators of a chat message. */
const TOKENS_PER_MESSAGE = 4;

export const estimateTextTokens = (text: string): number => Math.ceil(text.length / CHARACTERS_PER_TOKEN);

function charactersOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (Array.isArray(value)) return value.reduce((sum: number, part) => sum + charactersOf(part), 0);
  if (typeof value !== 'object' || value === null) return 0;
  const { text, content, tool_calls: calls } = value as { text?: unknown; content?: unknown; tool_calls?: unknown };
  return charactersOf(text) + charactersOf(content) + (calls === undefined ? 0 : JSON.stringify(calls).length);
}

/** @returns `undefined` for a request without text (tabular, binary). */
export function estimateInputTokens({ prompt, json }: Pick<LiteralRequest, 'prompt' | 'json'>): number | undefined {
  // Texts to embed are not a prompt.
  const characters = charactersOf(prompt ? prompt.messages : (json?.input ?? json?.inputs));
  const isChat = prompt?.format === 'chat' || prompt?.format === 'messages';
  if (characters === 0 && !isChat) return undefined;
  const tools = prompt?.tools === undefined ? 0 : JSON.stringify(prompt.tools).length;
  const frames = isChat ? TOKENS_PER_MESSAGE * prompt.messages.length : 0;
  return Math.ceil((characters + tools) / CHARACTERS_PER_TOKEN) + frames;
}

/** The names in OpenAI, TGI, OpenAI Responses, Converse, Gemini, Titan, and Llama on Bedrock. */
const LIMIT_NAMES = [
  ...['max_completion_tokens', 'max_tokens', 'max_new_tokens', 'max_output_tokens'],
  ...['maxTokens', 'maxOutputTokens', 'maxTokenCount', 'max_gen_len'],
];

/** A larger limit is not believable. */
const MAX_LIMIT = 1e9;

/** Returns the maximum number of output tokens that a request allows, above 0, if it sets a limit. */
function outputLimit({ prompt }: Pick<LiteralRequest, 'prompt'>): number | undefined {
  const name = LIMIT_NAMES.find((one) => prompt?.parameters[one] !== undefined);
  const limit = name === undefined ? undefined : prompt?.parameters[name];
  const isLimit = typeof limit === 'number' && Number.isInteger(limit) && limit > 0 && limit <= MAX_LIMIT;
  return isLimit ? limit : undefined;
}
