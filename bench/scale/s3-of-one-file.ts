/** A stand-in for S3 in a process of its own: every object is the same small capture file, and every claim is new. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chatFile } from '../support/records.ts';

const body = Buffer.from(chatFile(1, 1));
const headers = { etag: '"e"', 'last-modified': 'Fri, 20 Nov 2026 10:00:00 GMT', 'x-amz-request-id': 'r' };

const server = createServer((request, reply) => {
  request.resume().on('end', () => {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    reply.writeHead(200, { ...headers, 'content-length': isRead ? body.length : 0 });
    reply.end(request.method === 'GET' ? body : undefined);
  });
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
process.on('disconnect', () => process.exit());
