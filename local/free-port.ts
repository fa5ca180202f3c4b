import { createServer } from 'node:net';

/**
 * A port on 127.0.0.1 that nothing listens on: `wanted` where given, else one of the system's choice.
 *
 * @throws Error naming the port and what to do when `wanted` is taken
 */
export function freePort(wanted = 0, option = '--port'): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(
              `Port ${wanted} is in use; got: another program listens on 127.0.0.1:${wanted}; expected: a free port. Give another one with ${option}, or leave the option out to have a free one chosen`,
            )
          : error,
      );
    });
    server.listen({ host: '127.0.0.1', port: wanted, exclusive: true }, () => {
      const address = server.address();
      const port = typeof address === 'object' && address ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}
