/** Ports for servers that several processes start concurrently, as the tests do. */
import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import { freePort } from '../../local/machine/free-port.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

const PROCESSES = 4;
const PORTS = 400;

test('concurrent searches in one and in several processes never find the same port', async () => {
  const script = `
    import { freePort } from ${JSON.stringify(packagePath('local', 'machine', 'free-port.ts'))};
    const ports = await Promise.all(Array.from({ length: ${PORTS} }, () => freePort()));
    console.log(JSON.stringify(ports));
    // The ports stay reserved until this process ends.
    process.stdin.resume();`;
  const found = await Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      const process_ = promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
      const { stdout } = process_.child;
      return new Promise<{ ports: number[]; end: () => Promise<unknown> }>((resolve, reject) => {
        let output = '';
        stdout?.on('data', (data: string) => {
          output += data;
          if (!output.endsWith('\n')) return;
          const end = () => {
            process_.child.stdin?.end();
            return process_;
          };
          resolve({ ports: JSON.parse(output) as number[], end });
        });
        process_.catch(reject);
      });
    }),
  );
  const ports = found.flatMap((one) => one.ports);
  expect(new Set(ports).size).toBe(PROCESSES * PORTS);
  expect(ports.every((port) => port < 32_768)).toBe(true);
  await Promise.all(found.map(({ end }) => end()));
});

test('returns a requested port that is free, also again for a server that restarts', async () => {
  const port = await freePort();
  expect(await freePort(port)).toBe(port);
  const server = createServer().listen(port, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  await expect(freePort(port, '--mlflow-port')).rejects.toThrow(
    `Port ${port} is in use; got: another program listens on 127.0.0.1:${port}; expected: a free port. Set another one with --mlflow-port`,
  );
  await new Promise((resolve) => server.close(resolve));
  expect(await freePort(port)).toBe(port);
});
