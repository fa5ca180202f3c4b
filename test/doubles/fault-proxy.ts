/**
 * A proxy that injects faults between a client and S3 or MLflow. Unlike the misbehaving server it passes every header on
 * (S3 speaks in headers), and can fail a share or a number of the requests that a filter picks.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, request as openRequest, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { pseudoRandom } from '../../local/stand-in-judge/behaviour.ts';

export interface ProxiedRequest {
  method: string;
  /** With the query. */
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export type Fault =
  /** Answers without passing on. */
  | { kind: 'reply'; status: number; body?: string; headers?: Record<string, string> }
  /** Passes on, and answers with this in place of the reply. */
  | { kind: 'replyAfter'; status: number; body?: string }
  /** Cuts the connection before the request has any effect. */
  | { kind: 'cutBefore' }
  /** Cuts the connection once the request has had its effect. */
  | { kind: 'cutAfter' }
  /** Passes on, then sends the first half of the reply and no more. */
  | { kind: 'stall' }
  /** Passes on, then runs this before the reply is sent. */
  | { kind: 'passThen'; work: () => Promise<void> | void };

export type FaultRule = (request: ProxiedRequest) => Fault | undefined;

export interface FaultProxy {
  url: string;
  /** Faults injected since `inject` was last called. */
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
      // The client went away, or the server behind is down: to the client a cut connection either way.
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

/** Headers of one connection; the body is passed on whole, so it is no longer in chunks. */
const HOP_HEADERS = new Set(['connection', 'keep-alive', 'transfer-encoding']);

function forward(upstream: string, { method, path, headers, body }: ProxiedRequest): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const passed = Object.fromEntries(
      Object.entries(headers).filter(([name]) => !HOP_HEADERS.has(name) && name !== 'host' && name !== 'expect'),
    );
    // A connection of its own for each: a server closes idle ones, and one that is used at that moment breaks.
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

/** The first `count` requests that `matches` picks meet the fault. */
export function firstOnes(count: number, matches: (request: ProxiedRequest) => boolean, fault: Fault): FaultRule {
  let left = count;
  return (request) => {
    if (left === 0 || !matches(request)) return undefined;
    left -= 1;
    return fault;
  };
}

/** Every `n`-th of the requests that `matches` picks meets the fault, the first one included. */
export function everyNth(n: number, matches: (request: ProxiedRequest) => boolean, fault: Fault): FaultRule {
  let seen = 0;
  return (request) => {
    if (!matches(request)) return undefined;
    seen += 1;
    return seen % n === 1 ? fault : undefined;
  };
}

/**
 * This share of the requests that `matches` picks meets the fault, the first one always; the draws are the same in every
 * run. A fixed beat would fall in with a client that reads before each write, and fail every write.
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
 * Runs `work` when the server has answered `count` of the requests that `matches` picks, before that answer is passed on.
 * It is counted by answers: the first request that is sent may be the last one to be answered.
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

/** Each request meets one of the faults, by their shares, or none; the draws are the same in every run. */
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
 * What `rule` says, but no request, told by all that it asks for, meets a fault twice in a row: where the same must be
 * done at the first attempt in every run, chance must not use up a client's attempts.
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

/** The fault of the first rule that has one; rules behind it do not see the request. */
export function firstFault(...rules: readonly FaultRule[]): FaultRule {
  return (request) => {
    for (const rule of rules) {
      const fault = rule(request);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
}
