/**
 * A stand-in for an inference endpoint, for tests, benchmarks and trying replays: an OpenAI-compatible server
 * (`/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`), `/invocations`, and SageMaker's InvokeEndpoint and
 * InvokeEndpointWithResponseStream. Rules write its replies, not a model.
 *
 * A prompt can ask for a fault: `[[status 429]]`, `[[disconnect]]`, `[[latency 200]]`, `[[not json]]`, `[[cut stream]]`.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { EventStreamCodec } from '@smithy/core/event-streams';
import { defaultAnswer, type InferenceRequest, parseRequest, replyEvents, wholeReply } from './replies.ts';

export interface StandInEndpointOptions {
  /** Default: any free port. */
  port?: number;
  /** Time to the reply, or to its first token. Default 50. */
  latencyMs?: number;
  /** Words per reply. Default 16. */
  words?: number;
  /** Time between the words of a stream. Default 5. */
  interTokenMs?: number;
  /** Replaces the default rule's answer; `undefined` falls back to it. */
  answer?: (request: InferenceRequest) => string | undefined;
  /** Serve over TLS with this certificate and key, given as paths of PEM files. */
  tls?: { certificate: string; key: string };
}

/** A burst of thousands of new connections must not overflow the queue. */
const LISTEN_BACKLOG = 8192;
const KEEP_ALIVE_MS = 60_000;

const STATUS_TEXT: Record<number, string> = { 429: 'throttled', 500: 'the container failed', 503: 'no capacity' };
export const SAGEMAKER_ROUTE = /^\/endpoints\/([^/]+)\/invocations(-response-stream)?$/;
const OPEN_ROUTE = /^\/(v1\/(chat\/completions|completions|embeddings)|invocations)$/;

export class StandInEndpoint {
  port = 0;
  protected readonly server: Server;
  readonly #options: StandInEndpointOptions;

  constructor(options: StandInEndpointOptions) {
    this.#options = options;
    const handle = (message: IncomingMessage, response: ServerResponse): void => this.handle(message, response);
    const { tls } = options;
    this.server = tls
      ? createTlsServer({ cert: readFileSync(tls.certificate), key: readFileSync(tls.key) }, handle)
      : createServer(handle);
    this.server.keepAliveTimeout = KEEP_ALIVE_MS;
    this.server.on('connection', (socket) => socket.on('error', () => {}));
  }

  async listen(): Promise<void> {
    const address = { port: this.#options.port ?? 0, host: '127.0.0.1', backlog: LISTEN_BACKLOG };
    await once(this.server.listen(address), 'listening');
    this.port = (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `${this.#options.tls ? 'https' : 'http'}://127.0.0.1:${this.port}`;
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.server.close(() => resolve());
      this.server.closeAllConnections();
    });
  }

  protected handle(message: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.on('end', () => {
      const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
      this.route(message.url ?? '/', message, body, response);
    });
  }

  protected route(url: string, message: IncomingMessage, body: Buffer, response: ServerResponse): void {
    const sageMaker = SAGEMAKER_ROUTE.exec(url);
    if (sageMaker) {
      const variant = String(message.headers['x-amzn-sagemaker-target-variant'] ?? 'AllTraffic');
      response.setHeader('x-amzn-invoked-production-variant', variant);
    } else if (!OPEN_ROUTE.test(url.split('?')[0] ?? '')) {
      sendJson(response, 404, { error: { message: `no such route: ${url}` } });
      return;
    }
    const request = parseRequest(String(message.headers['content-type'] ?? ''), body, sageMaker?.[2] !== undefined);
    const asked = /\[\[latency (\d+)\]\]/.exec(request.prompt)?.[1];
    const wait = this.dueIn(asked ? Number(asked) : (this.#options.latencyMs ?? 50));
    setTimeout(() => this.#answer(request, response, sageMaker !== null), wait).unref();
  }

  /** Milliseconds until a reply that is ready in `wait` ms may be sent. */
  protected dueIn(wait: number): number {
    return wait;
  }

  #answer(request: InferenceRequest, response: ServerResponse, sageMaker: boolean): void {
    if (response.destroyed) return;
    const { prompt } = request;
    if (prompt.includes('[[disconnect]]')) {
      response.socket?.destroy();
      return;
    }
    const status = Number(/\[\[status (\d{3})\]\]/.exec(prompt)?.[1] ?? 200);
    if (status !== 200) {
      sendFailure(response, status, sageMaker);
      return;
    }
    const { words = 16 } = this.#options;
    const answer = this.#options.answer?.(request) ?? defaultAnswer(request, words);
    if (request.stream) {
      this.#stream(request, response, answer, sageMaker);
      return;
    }
    const reply = wholeReply(request, answer);
    send(response, 200, reply.contentType, prompt.includes('[[not json]]') ? '{not json' : reply.body);
  }

  #stream(request: InferenceRequest, response: ServerResponse, answer: string, sageMaker: boolean): void {
    const { words = 16, interTokenMs = 5 } = this.#options;
    const events = replyEvents(request, answer);
    const cut = request.prompt.includes('[[cut stream]]');
    response.writeHead(200, {
      'content-type': sageMaker ? 'application/vnd.amazon.eventstream' : 'text/event-stream',
      'cache-control': 'no-cache',
    });
    let next = 0;
    const write = (): void => {
      const bytes = Buffer.from(events[next++] ?? '');
      response.write(sageMaker ? payloadPart(bytes) : bytes);
    };
    const step = (): void => {
      if (response.destroyed) return;
      if (cut && next === 3) {
        if (sageMaker) response.end(modelStreamError('the container stopped', 'StreamBroken'));
        else response.destroy();
        return;
      }
      write();
      // The usage event and the end mark follow the last word immediately, as real servers send them.
      while (next >= words && next < events.length) write();
      if (next < events.length) setTimeout(step, this.dueIn(interTokenMs)).unref();
      else response.end();
    };
    step();
  }
}

/** Starts a stand-in endpoint on 127.0.0.1. */
export async function startStandInEndpoint(options: StandInEndpointOptions = {}): Promise<StandInEndpoint> {
  const endpoint = new StandInEndpoint(options);
  await endpoint.listen();
  return endpoint;
}

function sendFailure(response: ServerResponse, status: number, sageMaker: boolean): void {
  const message = STATUS_TEXT[status] ?? 'refused as the prompt asked';
  if (sageMaker) response.setHeader('x-amzn-errortype', status === 429 ? 'ThrottlingException' : 'ModelError');
  const body = sageMaker
    ? { Message: message, OriginalStatusCode: status, OriginalMessage: message }
    : { error: { message, type: 'stand_in_error', code: status } };
  sendJson(response, status, body);
}

export const sendJson = (response: ServerResponse, status: number, body: unknown): void =>
  send(response, status, 'application/json', JSON.stringify(body));

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString('utf8'),
  (text) => Buffer.from(text, 'utf8'),
);

function message(headers: Record<string, string>, body: Buffer): Buffer {
  const typed = Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }] as const);
  return Buffer.from(codec.encode({ headers: Object.fromEntries(typed), body }));
}

/** A part of the model's reply. */
export const payloadPart = (bytes: Buffer): Buffer =>
  message(
    { ':message-type': 'event', ':event-type': 'PayloadPart', ':content-type': 'application/octet-stream' },
    bytes,
  );

/** The error event of a container that failed in the middle of the stream. */
const modelStreamError = (text: string, code: string): Buffer =>
  message(
    { ':message-type': 'exception', ':exception-type': 'ModelStreamError', ':content-type': 'application/json' },
    Buffer.from(JSON.stringify({ Message: text, ErrorCode: code })),
  );
