/** The addresses that a replay in the cloud never connects to. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isOwnAddress } from '../../../src/replay/cloud/target.ts';
import { ConnectionPool } from '../../../src/replay/http/pool.ts';

test.each(
  (
    '127.0.0.1 127.255.255.254 0.0.0.0 169.254.169.254 169.254.100.1 :: ::1 fe80::1 fe80::1%eth0 febf:ffff::1 ' +
    '::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:0:127.0.0.1 ::127.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe ' +
    '64:ff9b:1::1 2002:7f00:1::1 2002:a9fe:a9fe:: fd00:ec2::254'
  ).split(' '),
)('%s is one', (address) => {
  expect(isOwnAddress(address)).toBe(true);
});

test.each(
  (
    '10.0.0.1 172.31.0.7 192.168.1.1 100.64.0.1 8.8.8.8 128.0.0.1 169.253.255.255 fd12:3456::1 fec0::1 2600:1f18::1 ' +
    '::ffff:10.0.0.1 64:ff9b::10.0.0.1 2002:a00:1::1'
  ).split(' '),
)('%s is none', (address) => {
  expect(isOwnAddress(address)).toBe(false);
});

test('a name that means a refused address later is still connected to at the address that was checked', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve));
  const { port } = server.address() as AddressInfo;
  const answers = ['127.0.0.2', '127.0.0.1'];
  const resolve = jest.fn(async () => [answers.shift() ?? '127.0.0.1']);
  const refuses = (address: string) => address === '127.0.0.1';
  const pool = new ConnectionPool({ tls: false, hostname: 'candidate.example', port, refuses }, resolve);
  try {
    await pool.open();
    // Later than the pool asks again what the name means, and longer than it keeps a connection.
    pool.sweep(performance.now() + 60_000);
    await new Promise((done) => setTimeout(done, 50));
    expect(resolve).toHaveBeenCalledTimes(2);
    const opened = new Promise<string>((done) =>
      server.once('connection', ({ localAddress = '' }) => done(localAddress)),
    );
    expect(pool.warm(1)).toBe(1);
    expect(await opened).toBe('127.0.0.2');
  } finally {
    pool.close();
    server.close();
  }
});
