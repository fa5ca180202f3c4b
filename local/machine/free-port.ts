/** Free TCP ports on 127.0.0.1. */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { type EventEmitter, once } from 'node:events';
import { createServer } from 'node:net';

/**
 * The range lies below the ports that systems assign to outgoing connections (from 32768 on Linux, 49152 on macOS), which
 * could take a port before its server listens.
 */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_767;
const MOST_TRIES = 200;

/**
 * Finds a free port on 127.0.0.1: `wanted` if given, else a random port that stays reserved until this process ends. No
 * other caller in any process gets the same port, although a server may take seconds to listen.
 *
 * @throws Error with the port and the remedy if `wanted` is in use
 *
 * @example
 *     const port = await freePort();
 *     const fixed = await freePort(5000, '--mlflow-port');
 */
export async function freePort(wanted?: number, option = '--port'): Promise<number> {
  if (wanted !== undefined && wanted !== 0) {
    if (await isFree(wanted)) return wanted;
    throw new Error(
      `Port ${wanted} is in use; got: another program listens on 127.0.0.1:${wanted}; expected: a free port. Set another one with ${option}, or omit the option to get a free one`,
    );
  }
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const port = randomInt(FIRST_PORT, LAST_PORT + 1);
    if ((await reserve(port)) && (await isFree(port))) return port;
  }
  throw new Error(
    `No free port was found; got: ${MOST_TRIES} random ports between ${FIRST_PORT} and ${LAST_PORT} on 127.0.0.1, all in use; expected: a free one`,
  );
}

/**
 * Reserves a port for this process by binding the UDP port of the same number, which TCP servers do not use and which the
 * system releases when the process ends.
 */
function reserve(port: number): Promise<boolean> {
  const mark = createSocket('udp4').unref();
  mark.bind({ address: '127.0.0.1', port, exclusive: true });
  return isBound(mark);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen({ host: '127.0.0.1', port, exclusive: true });
  return (await isBound(server)) && once(server.close(), 'close').then(() => true);
}

/** @returns `false` if the port is in use */
async function isBound(to: EventEmitter): Promise<boolean> {
  const error = await once(to, 'listening').catch((thrown: NodeJS.ErrnoException) => thrown);
  if (Array.isArray(error)) return true;
  if (error.code !== 'EADDRINUSE') throw error;
  return false;
}
