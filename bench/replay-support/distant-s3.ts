/**
 * A proxy between a function and the emulated S3 that delays every request like the real S3 does until its first byte. The
 * emulator on the same machine answers within two milliseconds.
 *
 *     node bench/replay-support/distant-s3.ts PORT URL DELAY_MS
 */
import { Agent, createServer, request as sendRequest } from 'node:http';

const [port = '', url = '', delayMs = ''] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true });
const { hostname, port: behind } = new URL(url);

createServer((request, response) => {
  const { method, url: path, headers } = request;
  setTimeout(() => {
    const forwarded = sendRequest({ agent, hostname, port: behind, method, path, headers }, (reply) => {
      response.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  }, Number(delayMs));
}).listen(Number(port), '127.0.0.1');
