import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

/**
 * Where ports are looked for: below those that systems give to outgoing connections (from 32768 on Linux, 49152 on
 * macOS), any of which could take the port before the server that it was found for.
 */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_767;
const MOST_TRIES = 200;

/**
 * A port on 127.0.0.1 that nothing listens on: `wanted` where given, else a random one that stays this process's until
 * it ends. No other caller, in whatever process, is given the same, though a server may take seconds to listen.
 *
 * @throws Error naming the port and what to do when `wanted` is taken
 */
export async function freePort(wanted?: number, option = '--port'): Promise<number> {
  if (wanted !== undefined && wanted !== 0) {
    if (await isFree(wanted)) return wanted;
    throw new Error(
      `Port ${wanted} is in use; got: another program listens on 127.0.0.1:${wanted}; expected: a free port. Give another one with ${option}, or leave the option out to have a free one chosen`,
    );
  }
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if ((await reserve(port)) && (await isFree(port))) return port;
  }
  throw new Error(
    `No port was found; got: ${MOST_TRIES} random ports between ${FIRST_PORT} and ${LAST_PORT} on 127.0.0.1, all in use; expected: a free one`,
  );
}

/**
 * Marks a port as this process's own by its twin in UDP, which servers of TCP do not use and which the system gives
 * back when the process ends, in whatever way.
 */
function reserve(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const mark = createSocket('udp4');
    mark.unref();
    mark.once('error', (error: NodeJS.ErrnoException) => {
      mark.close();
      isTaken(error) ? resolve(false) : reject(error);
    });
    mark.bind({ address: '127.0.0.1', port, exclusive: true }, () => resolve(true));
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => (isTaken(error) ? resolve(false) : reject(error)));
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

const isTaken = ({ code }: NodeJS.ErrnoException): boolean => code === 'EADDRINUSE';
