/**
 * A server that accepts HTTP/1.1 and HTTP/2 without TLS on one port: the AWS SDK uses HTTP/2 for Bedrock's `http:`
 * endpoints, and all other clients use HTTP/1.1.
 */
import http from 'node:http';
import http2 from 'node:http2';
import net, { type Socket } from 'node:net';

export type EitherRequest = http.IncomingMessage | http2.Http2ServerRequest;
export type EitherResponse = http.ServerResponse | http2.Http2ServerResponse;

/** The first bytes of a connection that speaks HTTP/2. */
const H2_PREFACE = 'PRI * HTTP/2.0';

/** @param open receives each connection while it is open, so that its owner can close them */
export function createEitherServer(
  handle: (request: EitherRequest, response: EitherResponse) => void,
  open: Set<Socket>,
): net.Server {
  const h1 = http.createServer(handle);
  const h2 = http2.createServer(handle);
  return net.createServer((socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.once('data', (first: Buffer) => {
      socket.pause();
      socket.unshift(first);
      const isH2 = H2_PREFACE.startsWith(first.toString('latin1').slice(0, H2_PREFACE.length));
      (isH2 ? h2 : h1).emit('connection', socket);
      if (!isH2) socket.resume();
    });
  });
}
