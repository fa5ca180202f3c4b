/**
 * A stand-in for an inference endpoint, for tests, benchmarks and trying replays: an OpenAI-compatible server
 * (`/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`), `/invocations`, and SageMaker's InvokeEndpoint and
 * InvokeEndpointWithResponseStream. Rules write its replies, not a model.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
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
}

/** A burst of thousands of new connections must not overflow the queue. */
const LISTEN_BACKLOG = 8192;
const KEEP_ALIVE_MS = 60_000;

export const SAGEMAKER_ROUTE = /^\/endpoints\/([^/]+)\/invocations(-response-stream)?$/;
const OPEN_ROUTE = /^\/(v1\/(chat\/completions|completions|embeddings)|invocations)$/;

export class StandInEndpoint {
  port = 0;
  protected readonly server: Server;
  readonly #options: StandInEndpointOptions;

  constructor(options: StandInEndpointOptions, create: (handle: RequestListener) => Server = createServer) {
    this.#options = options;
    this.server = create((message, response) => this.handle(message, response));
    this.server.keepAliveTimeout = KEEP_ALIVE_MS;
    this.server.on('connection', (socket) => socket.on('error', () => {}));
  }

  async listen(): Promise<void> {
    const address = { port: this.#options.port ?? 0, host: '127.0.0.1', backlog: LISTEN_BACKLOG };
    await once(this.server.listen(address), 'listening');
    this.port = (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async close(): Promise<void> {
    const closed = once(this.server.close(), 'close');
    this.server.closeAllConnections();
    await closed;
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
    const wait = this.dueIn(this.#options.latencyMs ?? 50, request);
    setTimeout(() => this.answer(request, response, sageMaker !== null), wait).unref();
  }

  /** Returns the milliseconds until a reply, or a part of a reply, may be sent that is ready in `wait` ms. */
  protected dueIn(wait: number, _request?: InferenceRequest): number {
    return wait;
  }

  protected textFor(request: InferenceRequest): string {
    return defaultAnswer(request, this.#options.words ?? 16);
  }

  protected answer(request: InferenceRequest, response: ServerResponse, sageMaker: boolean): void {
    if (response.destroyed) return;
    const text = this.textFor(request);
    if (request.stream) {
      this.stream(replyEvents(request, text), response, sageMaker, () => response.end());
      return;
    }
    const reply = wholeReply(request, text);
    send(response, 200, reply.contentType, reply.body);
  }

  /** Sends the events of a stream. @param end called after the last event */
  protected stream(events: readonly string[], response: ServerResponse, sageMaker: boolean, end: () => void): void {
    const { words = 16, interTokenMs = 5 } = this.#options;
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
      write();
      // The usage event and the end mark follow the last word immediately, as real servers send them.
      while (next >= words && next < events.length) write();
      if (next < events.length) setTimeout(step, this.dueIn(interTokenMs)).unref();
      else end();
    };
    step();
  }
}

/**
 * Starts a stand-in endpoint on 127.0.0.1.
 *
 * @example
 *     const endpoint = await startStandInEndpoint();
 */
export async function startStandInEndpoint(options: StandInEndpointOptions = {}): Promise<StandInEndpoint> {
  const endpoint = new StandInEndpoint(options);
  await endpoint.listen();
  return endpoint;
}

export const sendJson = (response: ServerResponse, status: number, body: unknown): void =>
  send(response, status, 'application/json', JSON.stringify(body));

export function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString('utf8'),
  (text) => Buffer.from(text, 'utf8'),
);

export function streamMessage(headers: Record<string, string>, body: Buffer): Buffer {
  const typed = Object.entries(headers).map(([name, value]) => [name, { type: 'string' as const, value }] as const);
  return Buffer.from(codec.encode({ headers: Object.fromEntries(typed), body }));
}

/** A part of the model's reply. */
export const payloadPart = (bytes: Buffer): Buffer =>
  streamMessage(
    { ':message-type': 'event', ':event-type': 'PayloadPart', ':content-type': 'application/octet-stream' },
    bytes,
  );
