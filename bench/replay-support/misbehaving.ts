/** Misbehaving servers: the bytes that they send, and the outcome that a correct client reports. */
import { type AddressInfo, createServer, type Socket } from 'node:net';

const OK = 'HTTP/1.1 200 OK\r\n';

/** `says` is the expected status and body; without it, the request must fail. `close` closes the connection after the bytes. */
export const MISBEHAVIORS: readonly { name: string; bytes: string; close?: boolean; says?: string }[] = [
  { name: 'a correct reply', bytes: `${OK}Content-Length: 2\r\n\r\nok`, says: '200 ok' },
  { name: 'an upper-case header', bytes: `${OK}CONTENT-LENGTH: 2\r\n\r\nok`, says: '200 ok' },
  { name: 'no reason phrase', bytes: 'HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok', says: '200 ok' },
  { name: 'HTTP/1.0 without a length', bytes: 'HTTP/1.0 200 OK\r\n\r\nok', close: true, says: '200 ok' },
  { name: 'a body without a length', bytes: `${OK}\r\nok`, close: true, says: '200 ok' },
  {
    name: 'chunked encoding',
    bytes: `${OK}Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n`,
    says: '200 ok',
  },
  {
    name: 'chunks with extensions and a trailer',
    bytes: `${OK}Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n`,
    says: '200 ok',
  },
  {
    name: 'informational 100 and 103 responses',
    bytes: `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${OK}Content-Length: 2\r\n\r\nok`,
    says: '200 ok',
  },
  { name: 'a 204', bytes: 'HTTP/1.1 204 No Content\r\n\r\n', says: '204 ' },
  {
    name: 'a redirect',
    bytes: 'HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n',
    says: '307 ',
  },
  { name: 'a server error', bytes: 'HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops', says: '500 oops' },
  { name: 'header values in Latin-1', bytes: `${OK}X-Name: caf\xe9\r\nContent-Length: 2\r\n\r\nok`, says: '200 ok' },
  { name: 'two equal lengths', bytes: `${OK}Content-Length: 2\r\nContent-Length: 2\r\n\r\nok`, says: '200 ok' },
  {
    name: 'a head of 30 KB',
    bytes: `${OK}X-Long: ${'x'.repeat(30_000)}\r\nContent-Length: 2\r\n\r\nok`,
    says: '200 ok',
  },
  { name: 'a close before any bytes', bytes: '', close: true },
  { name: 'a close in the head', bytes: 'HTTP/1.1 200 OK\r\nContent-Le', close: true },
  { name: 'a close in the body', bytes: `${OK}Content-Length: 10\r\n\r\nok`, close: true },
  { name: 'a close in a chunk', bytes: `${OK}Transfer-Encoding: chunked\r\n\r\n10\r\nok`, close: true },
  { name: 'a close before the last chunk', bytes: `${OK}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n`, close: true },
  { name: 'two different lengths', bytes: `${OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!` },
  { name: 'a negative length', bytes: `${OK}Content-Length: -1\r\n\r\nok`, close: true },
  { name: 'a length that is not a number', bytes: `${OK}Content-Length: two\r\n\r\nok`, close: true },
  {
    name: 'a chunk size that is not a number',
    bytes: `${OK}Transfer-Encoding: chunked\r\n\r\ntwo\r\nok\r\n0\r\n\r\n`,
    close: true,
  },
  { name: 'another protocol', bytes: 'SSH-2.0-OpenSSH_9.6\r\n\r\n', close: true },
  { name: 'a page without a head', bytes: '<html>ok</html>\r\n\r\n', close: true },
  { name: 'unrequested HTTP/2', bytes: '\0\0\x12\x04\0\0\0\0\0', close: true },
  { name: 'a status of four digits', bytes: 'HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok', close: true },
  { name: 'no answer', bytes: '' },
  { name: 'half a body, then silence', bytes: `${OK}Content-Length: 10\r\n\r\nok` },
];

/** Starts a server that answers the n-th request with the n-th misbehavior. */
export async function startMisbehaving(): Promise<{ url: string; stop(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      const number = Number(/\[#(\d+)\]/.exec(data.toString('latin1'))?.[1] ?? Number.NaN);
      const found = MISBEHAVIORS[number];
      if (!found) return;
      socket.write(Buffer.from(found.bytes, 'latin1'));
      if (found.close) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
