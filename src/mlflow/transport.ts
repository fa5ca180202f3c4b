/** Sends HTTP requests over kept-alive connections, with one timeout for the whole exchange. */
import http from 'node:http';
import https from 'node:https';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** A body that is sent while it is created, of a known length in bytes. */
interface StreamedBody {
  length: number;
  pieces: AsyncIterable<Uint8Array>;
}

export interface HttpRequest<Body = Uint8Array> {
  method: string;
  url: URL;
  headers: Record<string, string>;
  body?: Body;
  timeoutMs: number;
  /** Default: 64 MiB. */
  maxReplyBytes?: number;
  /** Receives the body of a reply with status 200 piece by piece. The `body` of the reply is then empty. */
  receive?: (piece: Buffer) => void;
}

export interface HttpReply {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

/** The reply did not arrive, or only in part. */
export class NoReplyError extends Error {
  /** The server may have received the request. */
  readonly sent: boolean;
  /** The connection broke before the whole request was written. */
  readonly whileSending: boolean;
  readonly timedOut: boolean;
  readonly code: string | undefined;

  constructor(message: string, details: { sent: boolean; whileSending: boolean; timedOut: boolean; cause?: unknown }) {
    super(message, { cause: details.cause });
    this.name = 'NoReplyError';
    this.sent = details.sent;
    this.whileSending = details.whileSending;
    this.timedOut = details.timedOut;
    this.code = (details.cause as NodeJS.ErrnoException | undefined)?.code;
  }
}

export type HttpTransport = ReturnType<typeof createHttpTransport>;

/**
 * Idle connections are closed before the server closes them. uvicorn, MLflow's server, does so after 5 s, and a request that
 * is written at that moment has an unknown outcome.
 */
const IDLE_MS = 3_000;

/** The code of the error for a reply that is longer than it may be. */
export const TOO_LONG = 'REPLY_TOO_LONG';

/** 100 traces with their assessments have less than 1 MB. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;

export function createHttpTransport() {
  const options = { keepAlive: true, timeout: IDLE_MS, scheduling: 'lifo' as const };
  const agents = { 'http:': new http.Agent(options), 'https:': new https.Agent(options) };
  return {
    send: (request: HttpRequest<Uint8Array | StreamedBody>) =>
      send(request, agents[request.url.protocol as keyof typeof agents]),
    close: () => {
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}

function send(request: HttpRequest<Uint8Array | StreamedBody>, agent: http.Agent): Promise<HttpReply> {
  const { url, method, body, maxReplyBytes = MAX_REPLY_BYTES } = request;
  const { request: open } = url.protocol === 'https:' ? https : http;
  return new Promise((resolve, reject) => {
    let connected = false;
    let written = false;
    const headers = { ...request.headers, 'content-length': String(body?.length ?? 0) };
    const call = open(url, { method, agent, headers });
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      call.destroy(new Error(`no complete reply within ${request.timeoutMs} ms`));
    }, request.timeoutMs);
    /** Reason why the rest of a body could not be created. */
    let source: Error | undefined;
    let refused: (() => void) | undefined;
    const fail = (error: Error) => {
      if (refused) return refused();
      clearTimeout(timer);
      const whileSending = connected && !written;
      const { message } = source ?? error;
      reject(new NoReplyError(message, { sent: connected, whileSending, timedOut, cause: source ?? error }));
    };
    call.once('socket', (socket) => {
      if (call.reusedSocket) connected = true;
      else socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => (connected = true));
    });
    call.once('finish', () => (written = true));
    call.on('error', fail);
    call.once('response', (response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      const receive = response.statusCode === 200 ? request.receive : undefined;
      response.on('data', (chunk: Buffer) => {
        if (receive) {
          receive(chunk);
          return;
        }
        size += chunk.length;
        if (size > maxReplyBytes) {
          const message = `the reply exceeds ${maxReplyBytes} bytes`;
          call.destroy(Object.assign(new Error(message), { code: TOO_LONG }));
        } else chunks.push(chunk);
      });
      const done = () => {
        clearTimeout(timer);
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) });
        if (!written) call.destroy();
      };
      // A server may refuse a request before its end, and then break the connection.
      if (!written && (response.statusCode ?? 0) >= 400) refused = done;
      response.on('error', fail);
      response.once('end', done);
    });
    if (body === undefined || body instanceof Uint8Array) call.end(body);
    else {
      const pieces = Readable.from(body.pieces).once('error', (error) => {
        source = error;
      });
      // The error ends the call, which reports it.
      pipeline(pieces, call).catch(() => undefined);
    }
  });
}
