/**
 * A real HTTP server between a client and nothing, or between a client and another server, that misbehaves as it is
 * told: for each request a rule says what happens.
 */
import { createServer, type IncomingHttpHeaders, request as openRequest, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface SeenRequest {
  method: string;
  /** With the query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export type Behaviour =
  | { kind: 'reply'; status: number; headers?: Record<string, string>; body?: string | Buffer }
  /** Passes the request on and answers with what comes back. */
  | { kind: 'pass' }
  /** Passes the request on, then answers with something else. */
  | { kind: 'passThenReply'; status: number; body?: string }
  /** Passes the request on, then cuts the connection. */
  | { kind: 'passThenCut' }
  /** Cuts the connection; the request has no effect. */
  | { kind: 'cut' }
  /** Starts an answer and never ends it. */
  | { kind: 'slowBody'; body?: string }
  /** Does something first. */
  | { kind: 'after'; work: () => Promise<void>; next: Behaviour };

export type Rule = (request: SeenRequest, ordinal: number) => Behaviour | undefined;

/** A body of this many announced bytes is cut off before it is read; asked before anything of it is there. */
export type EarlyRule = (announcedBytes: number, path: string) => boolean;

export interface MisbehavingServer {
  url: string;
  /** All requests so far. */
  requests: SeenRequest[];
  /** New connections so far. */
  connections(): number;
  /** What happens to requests from now on; where it says nothing, they are passed on, or answered with 200 and `{}`. */
  rule(rule: Rule): void;
  /** Cuts connections while the request is being sent. */
  cutWhileSending(rule: EarlyRule): void;
  stop(): Promise<void>;
}

export async function startMisbehavingServer(
  options: { upstream?: string; rule?: Rule } = {},
): Promise<MisbehavingServer> {
  let { rule = () => undefined } = options;
  let early: EarlyRule = () => false;
  let connections = 0;
  const requests: SeenRequest[] = [];
  const open = new Set<Socket>();
  const byDefault: Behaviour =
    options.upstream === undefined ? { kind: 'reply', status: 200, body: '{}' } : { kind: 'pass' };

  const behave = async (behaviour: Behaviour, seen: SeenRequest, response: ServerResponse): Promise<void> => {
    switch (behaviour.kind) {
      case 'after':
        await behaviour.work();
        return behave(behaviour.next, seen, response);
      case 'reply':
        response.writeHead(behaviour.status, { 'content-type': 'application/json', ...behaviour.headers });
        response.end(behaviour.body ?? '');
        return;
      case 'cut':
        response.socket?.destroy();
        return;
      case 'slowBody':
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' });
        response.write(behaviour.body ?? '{');
        return;
      default: {
        // Where the server behind is down, it is a cut connection to the client.
        const reply = await pass(options.upstream ?? '', seen).catch(() => undefined);
        if (reply === undefined || behaviour.kind === 'passThenCut') response.socket?.destroy();
        else if (behaviour.kind === 'passThenReply') response.writeHead(behaviour.status).end(behaviour.body ?? '');
        else response.writeHead(reply.status, reply.headers).end(reply.body);
      }
    }
  };

  const server = createServer(async (message, response) => {
    const seen: SeenRequest = {
      method: message.method ?? '',
      path: message.url ?? '',
      headers: message.headers,
      body: Buffer.alloc(0),
    };
    const ordinal = requests.push(seen) - 1;
    if (early(Number(message.headers['content-length'] ?? 0), seen.path)) {
      message.once('data', () => {
        message.pause();
        response.socket?.destroy();
      });
      return;
    }
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of message) chunks.push(chunk as Buffer);
    } catch {
      return;
    }
    seen.body = Buffer.concat(chunks);
    await behave(rule(seen, ordinal) ?? byDefault, seen, response);
  });
  server.on('connection', (socket) => {
    connections += 1;
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    connections: () => connections,
    rule: (next) => {
      rule = next;
    },
    cutWhileSending: (next) => {
      early = next;
    },
    stop: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function pass(
  upstream: string,
  seen: SeenRequest,
): Promise<{ status: number; headers: Record<string, string>; body: Buffer }> {
  return new Promise((resolve, reject) => {
    const { host: _host, connection: _connection, ...headers } = seen.headers;
    // A connection of its own for each: a server closes idle ones, and one that is used at that moment breaks.
    const options = { method: seen.method, headers, agent: false };
    const call = openRequest(new URL(seen.path, upstream), options, (reply) => {
      const chunks: Buffer[] = [];
      reply.on('data', (chunk) => chunks.push(chunk));
      reply.on('error', reject);
      reply.on('end', () => {
        const type = String(reply.headers['content-type'] ?? 'application/json');
        resolve({ status: reply.statusCode ?? 0, headers: { 'content-type': type }, body: Buffer.concat(chunks) });
      });
    });
    call.on('error', reject);
    call.end(seen.body);
  });
}
