/**
 * A stand-in for an inference endpoint, for tests, benchmarks and trying the replay: an OpenAI-compatible server
 * (`/v1/chat/completions`, `/v1/completions`, `/v1/embeddings`), `/invocations`, and SageMaker's InvokeEndpoint and
 * InvokeEndpointWithResponseStream with their signature checked. Its replies are rules, not a model.
 *
 * A prompt can ask for trouble: `[[status 429]]`, `[[disconnect]]`, `[[latency 200]]`, `[[not json]]`, `[[cut stream]]`.
 *
 * By hand: `npm run endpoint -- --port 8199 --latency 50`
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { describeError } from '../terminal/describe-error.ts';
import { ArrivalLog } from './arrivals.ts';
import { modelStreamError, payloadPart } from './event-stream.ts';
import { defaultAnswer, type InferenceRequest, parseRequest, replyEvents, wholeReply } from './replies.ts';
import { type SigV4Credentials, verifySigV4 } from './sigv4-verifier.ts';

interface StandInEndpointOptions {
  /** Default: any free port. */
  port?: number;
  /** Time to the reply, or to its first token. Default 50. */
  latencyMs?: number;
  /** Words of a reply. Default 16. */
  words?: number;
  /** Time between the words of a stream. Default 5. */
  interTokenMs?: number;
  /** The key that SageMaker's routes ask for; `any` takes all, as those of emulated roles are made up. Default: `test` / `test`. */
  signingKey?: SigV4Credentials | 'any';
  /** A signature is refused when it is older. Default: AWS's five minutes. */
  maxSkewMs?: number;
  /** From `afterMs` after the first request on, nothing is answered for `durationMs`. */
  stall?: { afterMs: number; durationMs: number };
  /** Another answer than the default rule's; `undefined` falls back to it. */
  answer?: (request: InferenceRequest) => string | undefined;
  /** Speak TLS, with this certificate and key: paths of PEM files. */
  tls?: { certificate: string; key: string };
  /** Keep every request for a test to look at. Default false. */
  record?: boolean;
}

interface RecordedRequest {
  method: string;
  url: string;
  headers: IncomingMessage['headers'];
  body: Buffer;
}

export interface StandInEndpoint {
  url: string;
  port: number;
  arrivals: ArrivalLog;
  /** Filled when `record` was asked for. */
  requests: RecordedRequest[];
  /** Most connections that were open at one time. */
  readonly maxConnections: number;
  close(): Promise<void>;
}

/** A burst of thousands of new connections must not overflow the queue. */
const LISTEN_BACKLOG = 8192;
const KEEP_ALIVE_MS = 60_000;

const STATUS_TEXT: Record<number, string> = { 429: 'throttled', 500: 'the container failed', 503: 'no capacity' };

export async function startStandInEndpoint(options: StandInEndpointOptions = {}): Promise<StandInEndpoint> {
  const { latencyMs = 50, words = 16, interTokenMs = 5, stall } = options;
  const signingKey = options.signingKey ?? { accessKeyId: 'test', secretAccessKey: 'test' };
  const arrivals = new ArrivalLog();
  const requests: RecordedRequest[] = [];
  const connections = new Set<Socket>();
  let maxConnections = 0;
  let firstAt = 0;

  /** Milliseconds until a reply that is ready in `wait` ms may go out, the stall counted in. */
  const delayed = (wait: number): number => {
    if (!stall) return wait;
    const now = performance.now();
    const from = firstAt + stall.afterMs;
    const to = from + stall.durationMs;
    const ready = now + wait;
    return ready >= from && ready < to ? to - now : wait;
  };

  function sendStream(request: InferenceRequest, response: ServerResponse, answer: string, sageMaker: boolean): void {
    const events = replyEvents(request, answer);
    const cut = request.prompt.includes('[[cut stream]]');
    response.writeHead(200, {
      'content-type': sageMaker ? 'application/vnd.amazon.eventstream' : 'text/event-stream',
      'cache-control': 'no-cache',
    });
    let next = 0;
    const step = (): void => {
      if (response.destroyed) return;
      if (cut && next === 3) {
        if (sageMaker) response.end(modelStreamError('the container stopped', 'StreamBroken'));
        else response.destroy();
        return;
      }
      const bytes = Buffer.from(events[next++] ?? '');
      response.write(sageMaker ? payloadPart(bytes) : bytes);
      // The usage event and the end mark follow the last word at once, as servers send them.
      while (next >= words && next < events.length) {
        const last = Buffer.from(events[next++] ?? '');
        response.write(sageMaker ? payloadPart(last) : last);
      }
      if (next < events.length) setTimeout(step, delayed(interTokenMs)).unref();
      else response.end();
    };
    step();
  }

  function answerRequest(request: InferenceRequest, response: ServerResponse, sageMaker: boolean): void {
    if (response.destroyed) return;
    const { prompt } = request;
    if (prompt.includes('[[disconnect]]')) {
      response.socket?.destroy();
      return;
    }
    const status = Number(/\[\[status (\d{3})\]\]/.exec(prompt)?.[1] ?? 200);
    if (status !== 200) {
      const message = STATUS_TEXT[status] ?? 'refused as the prompt asked';
      const body = sageMaker
        ? { Message: message, OriginalStatusCode: status, OriginalMessage: message }
        : { error: { message, type: 'stand_in_error', code: status } };
      if (sageMaker) response.setHeader('x-amzn-errortype', status === 429 ? 'ThrottlingException' : 'ModelError');
      send(response, status, 'application/json', JSON.stringify(body));
      return;
    }
    const answer = options.answer?.(request) ?? defaultAnswer(request, words);
    if (request.stream) {
      sendStream(request, response, answer, sageMaker);
    } else {
      const reply = wholeReply(request, answer);
      send(response, 200, reply.contentType, prompt.includes('[[not json]]') ? '{not json' : reply.body);
    }
  }

  function handle(message: IncomingMessage, response: ServerResponse): void {
    const url = message.url ?? '/';
    if (url.startsWith('/_')) {
      control(url, message, response);
      return;
    }
    const ordinal = arrivals.add();
    firstAt ||= performance.now();
    const chunks: Buffer[] = [];
    message.on('data', (chunk: Buffer) => chunks.push(chunk));
    message.on('end', () => {
      const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
      arrivals.name(ordinal, body);
      if (options.record) requests.push({ method: message.method ?? '', url, headers: message.headers, body });
      const sageMaker = /^\/endpoints\/([^/]+)\/invocations(-response-stream)?$/.exec(url);
      if (sageMaker) {
        const { maxSkewMs } = options;
        const refused =
          signingKey === 'any'
            ? undefined
            : verifySigV4({ message, body, credentials: signingKey, service: 'sagemaker', maxSkewMs });
        if (refused) {
          response.setHeader('x-amzn-errortype', refused.type);
          send(response, refused.status, 'application/json', JSON.stringify({ message: refused.message }));
          return;
        }
        response.setHeader(
          'x-amzn-invoked-production-variant',
          String(message.headers['x-amzn-sagemaker-target-variant'] ?? 'AllTraffic'),
        );
      } else if (!/^\/(v1\/(chat\/completions|completions|embeddings)|invocations)$/.test(url.split('?')[0] ?? '')) {
        send(response, 404, 'application/json', JSON.stringify({ error: { message: `no such route: ${url}` } }));
        return;
      }
      const request = parseRequest(String(message.headers['content-type'] ?? ''), body, sageMaker?.[2] !== undefined);
      const own = /\[\[latency (\d+)\]\]/.exec(request.prompt)?.[1];
      setTimeout(
        () => answerRequest(request, response, sageMaker !== null),
        delayed(own ? Number(own) : latencyMs),
      ).unref();
    });
  }

  function control(url: string, message: IncomingMessage, response: ServerResponse): void {
    if (url === '/_health') {
      send(response, 200, 'text/plain', 'ok');
    } else if (url === '/_arrivals') {
      const list = arrivals.list();
      if (message.method === 'DELETE') arrivals.clear();
      send(response, 200, 'application/json', JSON.stringify(list));
    } else {
      send(response, 404, 'text/plain', 'no such control route');
    }
  }

  const { tls } = options;
  const server: Server = tls
    ? createTlsServer({ cert: readFileSync(tls.certificate), key: readFileSync(tls.key) }, handle)
    : createServer(handle);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.on('connection', (socket) => {
    connections.add(socket);
    maxConnections = Math.max(maxConnections, connections.size);
    socket.on('error', () => {});
    socket.once('close', () => connections.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: options.port ?? 0, host: '127.0.0.1', backlog: LISTEN_BACKLOG }, resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}`,
    port,
    arrivals,
    requests,
    get maxConnections() {
      return maxConnections;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of connections) socket.destroy();
      }),
  };
}

function send(response: ServerResponse, status: number, contentType: string, body: string): void {
  response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

const HELP = `Usage: npm run endpoint -- [--port PORT] [--latency MS] [--words N] [--inter-token MS]

A stand-in for an inference endpoint on this machine, to try replays: OpenAI's chat completions, completions and embeddings, and
/invocations. Its replies are rules, not a model's. Ctrl-C ends it.

  --port PORT        default: a free one
  --latency MS       time to the reply, or to its first token (default: 50)
  --words N          words of a reply (default: 16)
  --inter-token MS   time between the words of a stream (default: 5)
  --certificate FILE --key FILE   speak TLS`;

if (process.argv[1]?.endsWith('endpoint/server.ts')) {
  main().catch((error: unknown) => {
    console.error(describeError(error));
    process.exitCode = 1;
  });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      port: { type: 'string' },
      latency: { type: 'string' },
      words: { type: 'string' },
      'inter-token': { type: 'string' },
      certificate: { type: 'string' },
      key: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const number = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
  const { certificate, key } = values;
  const endpoint = await startStandInEndpoint({
    ...(certificate && key ? { tls: { certificate, key } } : {}),
    port: number(values.port),
    latencyMs: number(values.latency),
    words: number(values.words),
    interTokenMs: number(values['inter-token']),
  });
  console.log(`stand-in endpoint: ${endpoint.url}`);
}
