/**
 * A proxy that asks a gate about each request before it forwards it. One port takes HTTP/1.1 and HTTP/2 without TLS, which the
 * AWS SDK's Bedrock client speaks to an `http:` endpoint; the upstream gets HTTP/1.1.
 */
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { createEitherServer, type EitherRequest, type EitherResponse } from '../../../local/servers/either-http.ts';
import { breakOff } from '../break-off.ts';
import { forward, type Reply, type SeenRequest } from '../misbehaving-server.ts';

/** A reply in place of the upstream's; or what to do with the upstream's reply before it is passed on; or nothing. */
export type Verdict = { answer: Reply } | { served(reply: Reply): Promise<void> | void } | undefined;

export interface Gate {
  admit(asked: SeenRequest, upstream: Upstream): Promise<Verdict> | Verdict;
}

/** The server behind a front, for the gate's own questions too. */
export interface Upstream {
  send(asked: SeenRequest): Promise<Reply>;
}

/** Starts a front on a loopback port. */
export async function startFront(upstreamUrl: string, gate: Gate, port = 0) {
  const upstream = { send: (asked: SeenRequest) => forward(upstreamUrl, asked) };
  const open = new Set<Socket>();
  const handle = async (request: EitherRequest, response: EitherResponse): Promise<void> => {
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { method = 'GET', url: path = '/', headers } = request;
      const asked = { method, path, headers, body: Buffer.concat(chunks) };
      const verdict = await gate.admit(asked, upstream);
      const reply = verdict && 'answer' in verdict ? verdict.answer : await upstream.send(asked);
      if (verdict && 'served' in verdict) await verdict.served(reply);
      // Both responses have the same methods, but TypeScript cannot call a union of their overloads.
      const writable = response as ServerResponse;
      writable.writeHead(reply.status, reply.headers);
      writable.end(method === 'HEAD' ? undefined : reply.body);
    } catch {
      // The client disconnected, or the upstream server is down. The client sees a broken connection in both cases.
      breakOff(response);
    }
  };
  const server = createEitherServer((request, response) => void handle(request, response), open);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** An error as AWS services that speak JSON send it. */
export const jsonError = (status: number, type: string, message: string, more: object = {}): Reply => ({
  status,
  headers: { 'content-type': 'application/x-amz-json-1.0', 'x-amzn-errortype': type },
  body: Buffer.from(JSON.stringify({ __type: type, message, Message: message, ...more })),
});
