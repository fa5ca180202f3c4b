/** Ports for servers that several processes start concurrently, as the tests do. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
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
  const found = Array.from({ length: PROCESSES }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] }),
  );
  const lists = await Promise.all(found.map(async ({ stdout }) => (await once(createInterface(stdout), 'line'))[0]));
  const ports = lists.flatMap((line): number[] => JSON.parse(line));
  expect(new Set(ports).size).toBe(PROCESSES * PORTS);
  expect(ports.every((port) => port < 32_768)).toBe(true);
  for (const { stdin } of found) stdin.end();
});

test('returns a requested port that is free, also again for a server that restarts', async () => {
  const port = await freePort();
  expect(await freePort(port)).toBe(port);
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  await expect(freePort(port, '--mlflow-port')).rejects.toThrow(
    `Port ${port} is in use; got: another program listens on 127.0.0.1:${port}; expected: a free port. Set another one with --mlflow-port`,
  );
  await once(server.close(), 'close');
  expect(await freePort(port)).toBe(port);
});
