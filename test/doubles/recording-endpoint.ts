/**
 * The stand-in endpoint as tests and benchmarks need it: it keeps what arrived and when, can refuse requests, and can stop answering for
 * a while.
 *
 * A prompt can ask for a fault: `[[status 429]]`, `[[disconnect]]`, `[[latency 200]]`, `[[not json]]`, `[[cut stream]]`.
 */
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { type InferenceRequest, replyEvents } from '../../local/stand-in-endpoint/replies.ts';
import {
  StandInEndpoint as PlainEndpoint,
  type StandInEndpointOptions as PlainOptions,
  SAGEMAKER_ROUTE,
  send,
  sendJson,
  streamMessage,
} from '../../local/stand-in-endpoint/server.ts';
import { ArrivalLog } from './arrivals.ts';
import { logRequest } from './request-log.ts';

export interface Refusal {
  status: number;
  type: string;
  message: string;
}

interface StandInEndpointOptions extends PlainOptions {
  /** Returns why a request to SageMaker's routes is refused, for example for its signature. Default: none is. */
  refuses?: (message: IncomingMessage, body: Buffer) => Refusal | undefined;
  /** From `afterMs` after the first request on, nothing is answered for `durationMs`. */
  stall?: { afterMs: number; durationMs: number };
  /** Keep every request in `requests`. Default false. */
  record?: boolean;
  /** Replaces the default rule's answer. */
  answer?: (request: { prompt: string }) => string;
  /** Serve over TLS with this certificate and key, given as paths of PEM files. */
  tls?: { certificate: string; key: string };
}

const STATUS_TEXT: Record<number, string> = { 429: 'throttled', 500: 'the container failed', 503: 'no capacity' };
/** Events before a stream is cut. */
const CUT_AFTER = 3;

interface RecordedRequest {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: Buffer;
}

export class StandInEndpoint extends PlainEndpoint {
  readonly arrivals = new ArrivalLog();
  /** Filled if `record` is set. */
  readonly requests: RecordedRequest[] = [];
  /** The highest number of connections that were open at the same time. */
  maxConnections = 0;
  readonly #recording: StandInEndpointOptions;
  /** Requests by their index in `arrivals`. */
  readonly #arrived = new WeakMap<IncomingMessage, number>();
  #firstAt = 0;

  constructor(options: StandInEndpointOptions) {
    const { tls } = options;
    super(
      options,
      tls && ((handle) => createTlsServer({ cert: readFileSync(tls.certificate), key: readFileSync(tls.key) }, handle)),
    );
    this.#recording = options;
    const open = new Set<Socket>();
    this.server.on('connection', (socket) => {
      open.add(socket);
      this.maxConnections = Math.max(this.maxConnections, open.size);
      socket.once('close', () => open.delete(socket));
    });
  }

  override get url(): string {
    return this.#recording.tls ? super.url.replace('http:', 'https:') : super.url;
  }

  protected override handle(message: IncomingMessage, response: ServerResponse): void {
    if (message.url === '/_arrivals') {
      const list = this.arrivals.list();
      if (message.method === 'DELETE') this.arrivals.clear();
      sendJson(response, 200, list);
      return;
    }
    this.#arrived.set(message, this.arrivals.add());
    this.#firstAt ||= performance.now();
    super.handle(message, response);
  }

  protected override route(url: string, message: IncomingMessage, body: Buffer, response: ServerResponse): void {
    this.arrivals.name(this.#arrived.get(message) ?? -1, body);
    const { method = '', headers } = message;
    if (this.#recording.record) this.requests.push({ method, url, headers, body });
    if (SAGEMAKER_ROUTE.test(url)) {
      logRequest({ method, url, headers, length: body.length });
      const refused = this.#recording.refuses?.(message, body);
      if (refused) {
        response.setHeader('x-amzn-errortype', refused.type);
        sendJson(response, refused.status, { message: refused.message });
        return;
      }
    }
    super.route(url, message, body, response);
  }

  protected override textFor(request: InferenceRequest): string {
    return this.#recording.answer?.({ prompt: promptOf(request) }) ?? super.textFor(request);
  }

  protected override answer(request: InferenceRequest, response: ServerResponse, sageMaker: boolean): void {
    const prompt = promptOf(request);
    const status = Number(/\[\[status (\d{3})\]\]/.exec(prompt)?.[1] ?? 200);
    if (response.destroyed) return;
    if (prompt.includes('[[disconnect]]')) response.socket?.destroy();
    else if (status !== 200) sendFailure(response, status, sageMaker);
    else if (request.stream && prompt.includes('[[cut stream]]')) {
      const events = replyEvents(request, this.textFor(request)).slice(0, CUT_AFTER);
      this.stream(events, response, sageMaker, () => {
        if (sageMaker) response.end(modelStreamError('the container stopped', 'StreamBroken'));
        else response.destroy();
      });
    } else if (prompt.includes('[[not json]]')) send(response, 200, 'application/json', '{not json');
    else super.answer(request, response, sageMaker);
  }

  /** Includes the stall. */
  protected override dueIn(given: number, request?: InferenceRequest): number {
    const { stall } = this.#recording;
    const asked = request && /\[\[latency (\d+)\]\]/.exec(promptOf(request))?.[1];
    const wait = asked ? Number(asked) : given;
    if (!stall) return wait;
    const now = performance.now();
    const from = this.#firstAt + stall.afterMs;
    const to = from + stall.durationMs;
    const ready = now + wait;
    return ready >= from && ready < to ? to - now : wait;
  }
}

/** Starts a stand-in endpoint on 127.0.0.1. */
export async function startStandInEndpoint(options: StandInEndpointOptions = {}): Promise<StandInEndpoint> {
  const endpoint = new StandInEndpoint(options);
  await endpoint.listen();
  return endpoint;
}

function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: { text?: unknown }) => (typeof part?.text === 'string' ? part.text : '')).join(' ');
}

/** Returns the prompt as text: the last user message, `prompt`, `inputs`, or the body itself. */
function promptOf({ json, body }: InferenceRequest): string {
  if (!json) return body.toString('utf8');
  if (Array.isArray(json.messages)) {
    const users = (json.messages as { role?: string; content?: unknown }[]).filter((m) => m?.role === 'user');
    return contentText(users.at(-1)?.content);
  }
  for (const key of ['prompt', 'inputs', 'input'] as const) {
    const value = json[key];
    if (typeof value === 'string') return value;
    if (Array.isArray(value)) return value.map(String).join(' ');
  }
  return body.toString('utf8');
}

function sendFailure(response: ServerResponse, status: number, sageMaker: boolean): void {
  const message = STATUS_TEXT[status] ?? 'refused as the prompt asked';
  if (sageMaker) response.setHeader('x-amzn-errortype', status === 429 ? 'ThrottlingException' : 'ModelError');
  const body = sageMaker
    ? { Message: message, OriginalStatusCode: status, OriginalMessage: message }
    : { error: { message, type: 'stand_in_error', code: status } };
  sendJson(response, status, body);
}

/** The error event of a container that failed in the middle of the stream. */
const modelStreamError = (text: string, code: string): Buffer =>
  streamMessage(
    { ':message-type': 'exception', ':exception-type': 'ModelStreamError', ':content-type': 'application/json' },
    Buffer.from(JSON.stringify({ Message: text, ErrorCode: code })),
  );
