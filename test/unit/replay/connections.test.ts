/** The addresses that a replay in the cloud never connects to, and the number of connections that are opened ahead. */
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { isOwnAddress } from '../../../src/replay/cloud/target.ts';
import { ConnectionPool } from '../../../src/replay/http/pool.ts';
import { sparesNeeded } from '../../../src/replay/send/warmer.ts';

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

test('an unreachable target is explained by the last of its addresses', async () => {
  const silent = createTcpServer();
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.2', resolve));
  const { port } = silent.address() as AddressInfo;
  const poolOf = (...addresses: string[]) =>
    new ConnectionPool({ tls: true, hostname: 'candidate.example', port }, async () => addresses);
  try {
    await expect(poolOf('127.0.0.1', '127.0.0.2').open()).rejects.toThrow('no answer within 5000 ms');
    await expect(poolOf().open()).rejects.toThrow('its name has no address');
    await expect(poolOf().open()).rejects.not.toHaveProperty('cause');
  } finally {
    silent.close();
  }
}, 15_000);

type ConnectionNeed = Parameters<typeof sparesNeeded>[0];

const need = (more: Partial<ConnectionNeed>): number =>
  sparesNeeded({ soon: 0, peak: 100, inFlight: 0, young: 0, limit: 4096, ...more });

test.each<[string, Partial<ConnectionNeed>, number]>([
  ['opens all for the next burst if nothing is in flight', {}, 100],
  [
    'opens none while a burst of the same size is in flight, since it returns its connections',
    { inFlight: 100, young: 100 },
    0,
  ],
  ['opens the difference for a larger burst', { inFlight: 60, young: 60 }, 40],
  ['opens none if more requests are in flight than will be due', { inFlight: 300, young: 300 }, 0],
  ['opens all while the target stalls, since no connection may be returned', { inFlight: 100, young: 0 }, 100],
  ['opens all for a burst that is due before the replies', { soon: 100, inFlight: 100, young: 100 }, 100],
  ['opens only the other half of a burst that is half sent', { soon: 40, inFlight: 60, young: 60 }, 40],
  ['opens no more than the concurrency cap allows', { inFlight: 30, limit: 50 }, 20],
  ['opens none at the concurrency cap', { inFlight: 50, limit: 50 }, 0],
])('%s', (_, more, spare) => expect(need(more)).toBe(spare));
