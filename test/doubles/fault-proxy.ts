/**
 * A proxy that injects faults between a client and S3 or MLflow. Unlike the misbehaving server it forwards all headers, which
 * S3 needs, and can fail a share or a number of the requests that a filter selects.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, request as openRequest, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { pseudoRandom } from './faulty-judge/behavior.ts';

export interface ProxiedRequest {
  method: string;
  /** Includes the query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export type Fault =
  /** Replies without forwarding the request. */
  | { kind: 'reply'; status: number; body?: string; headers?: Record<string, string> }
  /** Forwards the request, and replaces its reply. */
  | { kind: 'replyAfter'; status: number; body?: string }
  /** Breaks the connection before the request has an effect. */
  | { kind: 'cutBefore' }
  /** Breaks the connection after the request has had its effect. */
  | { kind: 'cutAfter' }
  /** Neither forwards the request nor replies, as if one of the two ends were gone. */
  | { kind: 'hang' }
  /** Forwards the request, then sends only the first half of the reply. */
  | { kind: 'stall' }
  /** Forwards the request, then runs this before it sends the reply. */
  | { kind: 'passThen'; work: () => Promise<void> | void };

export type FaultRule = (request: ProxiedRequest) => Fault | undefined;

export interface FaultProxy {
  url: string;
  /** Returns the number of faults injected since the last call of `inject`. */
  injected(): number;
  inject(rule: FaultRule): void;
  heal(): void;
  stop(): Promise<void>;
}

export async function startFaultProxy(upstream: string): Promise<FaultProxy> {
  let rule: FaultRule = () => undefined;
  let injected = 0;
  const open = new Set<Socket>();

  const answer = async (fault: Fault | undefined, seen: ProxiedRequest, response: ServerResponse): Promise<void> => {
    if (fault?.kind === 'reply') {
      response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers }).end(fault.body ?? '');
      return;
    }
    if (fault?.kind === 'cutBefore') {
      response.socket?.destroy();
      return;
    }
    if (fault?.kind === 'hang') return;
    const reply = await forward(upstream, seen);
    switch (fault?.kind) {
      case 'cutAfter':
        response.socket?.destroy();
        return;
      case 'replyAfter':
        response.writeHead(fault.status, { 'content-type': 'application/json' }).end(fault.body ?? '');
        return;
      case 'stall':
        response.writeHead(reply.status, { ...reply.headers, 'content-length': String(reply.body.length + 1) });
        response.write(reply.body.subarray(0, Math.ceil(reply.body.length / 2)));
        return;
      default:
        if (fault?.kind === 'passThen') await fault.work();
        response.writeHead(reply.status, reply.headers).end(reply.body);
    }
  };

  const server = createServer(async (message, response) => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of message) chunks.push(chunk as Buffer);
      const seen: ProxiedRequest = {
        method: message.method ?? '',
        path: message.url ?? '',
        headers: message.headers,
        body: Buffer.concat(chunks),
      };
      const fault = rule(seen);
      if (fault !== undefined) injected += 1;
      await answer(fault, seen, response);
    } catch {
      // The client disconnected, or the upstream server is down. The client sees a broken connection in both cases.
      response.socket?.destroy();
    }
  });
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    injected: () => injected,
    inject: (next) => {
      injected = 0;
      rule = next;
    },
    heal: () => {
      rule = () => undefined;
    },
    stop: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Reply {
  status: number;
  headers: Record<string, string | string[]>;
  body: Buffer;
}

/** Headers that apply to one connection. The body is forwarded whole, so it is no longer chunked. */
const HOP_HEADERS = new Set(['connection', 'keep-alive', 'transfer-encoding']);

function forward(upstream: string, { method, path, headers, body }: ProxiedRequest): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const passed = Object.fromEntries(
      Object.entries(headers).filter(([name]) => !HOP_HEADERS.has(name) && name !== 'host' && name !== 'expect'),
    );
    // Each request has a separate connection. A kept one would break if the server closed it at that moment.
    const call = openRequest(new URL(path, upstream), { method, headers: passed, agent: false }, (reply) => {
      const chunks: Buffer[] = [];
      reply.on('data', (chunk) => chunks.push(chunk));
      reply.on('error', reject);
      reply.on('end', () => {
        const kept = Object.entries(reply.headers).filter(([name]) => !HOP_HEADERS.has(name));
        resolve({
          status: reply.statusCode ?? 502,
          headers: Object.fromEntries(kept) as Reply['headers'],
          body: Buffer.concat(chunks),
        });
      });
    });
    call.on('error', reject);
    call.end(body);
  });
}

/** Fails the first `count` of the matching requests. */
export function firstOnes(count: number, matches: (request: ProxiedRequest) => boolean, fault: Fault): FaultRule {
  let left = count;
  return (request) => {
    if (left === 0 || !matches(request)) return undefined;
    left -= 1;
    return fault;
  };
}

/** Fails every `n`-th of the matching requests, including the first. */
export function everyNth(n: number, matches: (request: ProxiedRequest) => boolean, fault: Fault): FaultRule {
  let seen = 0;
  return (request) => {
    if (!matches(request)) return undefined;
    seen += 1;
    return seen % n === 1 ? fault : undefined;
  };
}

/**
 * Fails the given share of the matching requests, and always the first. The random draws are the same in every run. A regular
 * pattern could hit every write of a client that reads before each write.
 */
export function someOf(share: number, matches: (request: ProxiedRequest) => boolean, fault: Fault): FaultRule {
  const draw = pseudoRandom(1);
  let isFirst = true;
  return (request) => {
    if (!matches(request)) return undefined;
    const hit = draw() < share || isFirst;
    isFirst = false;
    return hit ? fault : undefined;
  };
}

/**
 * Runs `work` after the server has answered `count` of the matching requests, before the last answer is forwarded. It counts
 * answers, because the first request sent may be the last one answered.
 */
export function afterReplies(
  count: number,
  matches: (request: ProxiedRequest) => boolean,
  work: () => Promise<void> | void,
): FaultRule {
  let replies = 0;
  const reached = async () => {
    replies += 1;
    if (replies === count) await work();
  };
  return (request) => (matches(request) ? { kind: 'passThen', work: reached } : undefined);
}

/** Fails each request with one of the faults, by their shares, or with none. The draws are the same in every run. */
export function mixOf(faults: readonly (readonly [share: number, fault: Fault])[], seed = 1): FaultRule {
  const draw = pseudoRandom(seed);
  return () => {
    let rest = draw();
    for (const [share, fault] of faults) {
      if (rest < share) return fault;
      rest -= share;
    }
    return undefined;
  };
}

/**
 * Applies `rule`, but never fails the same request twice in a row. Requests are the same if method, path and body are equal.
 * Chance must not use up a client's attempts in a test that expects the same result in every run.
 */
export function sparing(rule: FaultRule): FaultRule {
  const spared = new Set<string>();
  return (request) => {
    const { method, path, body } = request;
    const what = createHash('sha256').update(`${method} ${path}\n`).update(body).digest('hex');
    if (spared.delete(what)) return undefined;
    const fault = rule(request);
    if (fault !== undefined) spared.add(what);
    return fault;
  };
}

/** Returns the fault of the first rule that has one. Later rules do not see the request. */
export function firstFault(...rules: readonly FaultRule[]): FaultRule {
  return (request) => {
    for (const rule of rules) {
      const fault = rule(request);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
}
