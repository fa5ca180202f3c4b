/**
 * An HTTP server that misbehaves on demand, alone or as a proxy before another server. A rule determines what happens to
 * each request.
 */
import { type IncomingHttpHeaders, request as openRequest, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { serve } from '../helpers/serve.ts';

export interface SeenRequest {
  method: string;
  /** Includes the query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export type Behavior =
  | { kind: 'reply'; status: number; headers?: Record<string, string>; body?: string | Buffer }
  /** Forwards the request and its reply. */
  | { kind: 'pass' }
  /** Forwards the request, and replaces its reply. */
  | { kind: 'passThenReply'; status: number; body?: string }
  /** Forwards the request, then breaks the connection. */
  | { kind: 'passThenCut' }
  /** Breaks the connection. The request has no effect. */
  | { kind: 'cut' }
  /** Starts a reply and never ends it. */
  | { kind: 'slowBody'; body?: string }
  /** Neither forwards the request nor replies, as if one of the two ends were gone. */
  | { kind: 'hang' }
  /** Forwards the request, then sends only the first half of the reply. */
  | { kind: 'stall' }
  /** Forwards the request, then runs `work` before it sends the reply. */
  | { kind: 'passThen'; work: () => Promise<void> | void }
  /** Runs `work` first. */
  | { kind: 'after'; work: () => Promise<void>; next: Behavior };

export type Rule = (request: SeenRequest, ordinal: number) => Behavior | undefined;

/** Decides by the announced length of a body whether to break the connection before the body is read. */
export type EarlyRule = (announcedBytes: number, path: string) => boolean;

export type MisbehavingServer = Awaited<ReturnType<typeof startMisbehavingServer>>;

export async function startMisbehavingServer(options: { upstream?: string; rule?: Rule; keepsNone?: boolean } = {}) {
  let { rule = () => undefined } = options;
  let early: EarlyRule = () => false;
  let connections = 0;
  const requests: SeenRequest[] = [];
  const byDefault: Behavior =
    options.upstream === undefined ? { kind: 'reply', status: 200, body: '{}' } : { kind: 'pass' };

  const behave = async (behavior: Behavior, seen: SeenRequest, response: ServerResponse): Promise<void> => {
    switch (behavior.kind) {
      case 'after':
        await behavior.work();
        return behave(behavior.next, seen, response);
      case 'reply':
        response.writeHead(behavior.status, { 'content-type': 'application/json', ...behavior.headers });
        response.end(behavior.body ?? '');
        return;
      case 'cut':
        response.socket?.destroy();
        return;
      case 'slowBody':
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
        response.write(behavior.body ?? '{');
        return;
      case 'hang':
        return;
      default: {
        // If the upstream server is down, the client sees a broken connection.
        const reply = await forward(options.upstream ?? '', seen).catch(() => undefined);
        if (reply === undefined || behavior.kind === 'passThenCut') response.socket?.destroy();
        else if (behavior.kind === 'passThenReply') {
          response.writeHead(behavior.status, { 'content-type': 'application/json' }).end(behavior.body ?? '');
        } else if (behavior.kind === 'stall') {
          response.writeHead(reply.status, { ...reply.headers, 'content-length': String(reply.body.length + 1) });
          response.write(reply.body.subarray(0, Math.ceil(reply.body.length / 2)));
        } else {
          if (behavior.kind === 'passThen') await behavior.work();
          response.writeHead(reply.status, reply.headers).end(reply.body);
        }
      }
    }
  };

  const { server, url, close } = await serve(async (message, response) => {
    const seen: SeenRequest = {
      method: message.method ?? '',
      path: message.url ?? '',
      headers: message.headers,
      body: Buffer.alloc(0),
    };
    const ordinal = requests.push(seen) - 1;
    if (options.keepsNone) requests.length = 0;
    if (early(Number(message.headers['content-length'] ?? 0), seen.path)) {
      message.once('data', () => {
        message.pause();
        response.socket?.destroy();
      });
      return;
    }
    try {
      seen.body = await buffer(message);
    } catch {
      return;
    }
    await behave(rule(seen, ordinal) ?? byDefault, seen, response);
  });
  server.on('connection', () => {
    connections += 1;
  });
  return {
    url,
    /** All requests so far, if they are kept. */
    requests,
    /** New connections so far. */
    connections: () => connections,
    /** Sets the rule. Requests without a behavior are forwarded, or answered with 200 and `{}` if there is no upstream. */
    rule: (next: Rule) => {
      rule = next;
    },
    /** Breaks connections while the request is being sent. */
    cutWhileSending: (next: EarlyRule) => {
      early = next;
    },
    stop: close,
  };
}

export interface Reply {
  status: number;
  headers: Record<string, string | string[]>;
  body: Buffer;
}

/** Headers of one connection. The body is forwarded whole, so it is no longer chunked. */
const HOP_HEADERS = new Set('connection keep-alive transfer-encoding host expect http2-settings upgrade'.split(' '));
const withoutHops = (headers: IncomingHttpHeaders) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_HEADERS.has(name) && !name.startsWith(':')));

/** Sends a request to the server behind this one. */
export function forward(upstream: string, seen: SeenRequest): Promise<Reply> {
  return new Promise((resolve, reject) => {
    // Each request has a separate connection. A kept one would break if the server closed it at that moment.
    const headers = { ...withoutHops(seen.headers), 'content-length': seen.body.length };
    const options = { method: seen.method, headers, agent: false };
    const call = openRequest(new URL(seen.path, upstream), options, (reply) => {
      buffer(reply).then((body) => {
        resolve({ status: reply.statusCode ?? 502, headers: withoutHops(reply.headers) as Reply['headers'], body });
      }, reject);
    });
    call.on('error', reject);
    call.end(seen.body);
  });
}
