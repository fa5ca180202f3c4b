/** Replays to a TLS target, by name and by address. */
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { makeCertificate, type Tls } from '../../local/servers/ministack.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { ReplayFolder, runCli } from '../helpers/replay.ts';

/** The Python environment that creates the certificate may have to be created first. */
const SETUP_MS = 15 * 60_000;

let folder: ReplayFolder;
let endpoint: StandInEndpoint;
let tls: Tls;
let front: Server;
const names: (string | false | null)[] = [];

beforeAll(async () => {
  folder = new ReplayFolder();
  endpoint = await startStandInEndpoint({ latencyMs: 10 });
  tls = await makeCertificate(await defaultPythonEnvironment(), folder.path);
  const options = { cert: readFileSync(tls.certificate), key: readFileSync(tls.key), ALPNProtocols: ['http/1.1'] };
  front = createServer(options, (socket: TLSSocket) => {
    names.push(socket.servername);
    const behind = connect(endpoint.port, '127.0.0.1');
    for (const one of [socket, behind]) one.on('error', () => {});
    socket.pipe(behind).pipe(socket);
  });
  front.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => {
    front.listen(0, '127.0.0.1', resolve);
  });
}, SETUP_MS);
afterAll(async () => {
  front.close();
  await endpoint.close();
});

const target = (host: string): string => `https://${host}:${(front.address() as AddressInfo).port}`;
const captures = (): string =>
  folder.chats(
    20,
    (i) => i % 2,
    (i) => `hello ${i}`,
  );

test.each([
  ['localhost', 'localhost'],
  ['127.0.0.1', false],
])('replays to %s', async (host, name) => {
  names.length = 0;
  const { code, stdout, stderr } = await runCli(
    ['replay', captures(), '--url', target(host), '--quiet', '--no-report', '-o', join(folder.path, host)],
    { NODE_EXTRA_CA_CERTS: tls.certificate },
  );
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain('succeeded: 20');
  expect(new Set(names)).toEqual(new Set([name]));
});

test('names the other protocol behind the port', async () => {
  const args = ['--quiet', '--no-report', '-o', join(folder.path, 'other')];
  const plain = await runCli(['replay', captures(), '--url', `https://127.0.0.1:${endpoint.port}`, ...args]);
  expect(plain).toMatchObject({ code: 2, stderr: expect.stringContaining('the server speaks http, not https; got') });
  const secure = await runCli(['replay', captures(), '--url', target('127.0.0.1').replace('https', 'http'), ...args]);
  expect(secure).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/ServerDisconnectedError .*a server that speaks https does/),
  });
});

test('rejects an untrusted certificate, and sends nothing', async () => {
  const before = endpoint.arrivals.count;
  const out = join(folder.path, 'refused');
  const options = ['--url', target('localhost'), '--quiet', '-o', out];
  const { code, stderr } = await runCli(['replay', captures(), ...options]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/TargetUnreachable: .*self-signed certificate/);
  expect(endpoint.arrivals.count).toBe(before);
});
