/** Bodies that break off, end early or are not from S3: the reader returns every byte, or a named error. And these errors. */
import { S3ServiceException } from '@aws-sdk/client-s3';
import { namedStorageError } from '../../../src/core/aws/storage-errors.ts';
import { isRetryable } from '../../../src/core/errors/errors.ts';
import { drainThrottles } from '../../../src/core/process/throttles.ts';
import { objectReader } from '../../../src/replay/cloud/work-bucket/schedule-file.ts';
import { S3Wire } from '../../doubles/s3-wire.ts';

const bytes = Buffer.from(Array.from({ length: 3_000 }, (_, n) => `${n} `).join(''));
let wire: S3Wire;

beforeAll(async () => {
  wire = await S3Wire.start();
  wire.put('b', 'file', bytes);
  wire.put('b', 'json', JSON.stringify({ a: 'x'.repeat(5_000) }));
});
afterAll(() => wire.stop());
beforeEach(() => {
  wire.fault = () => undefined;
  wire.requests.length = 0;
});

async function readAll(range?: { start: number; end: number }, size?: number): Promise<Buffer> {
  const facts = await wire.storage.head('b', 'file');
  const { size: _, ...object } = facts ?? { bucket: '', key: '', etag: '', size: 0 };
  const pieces: Buffer[] = [];
  const body = await wire.storage.read(size === undefined ? object : { ...object, size }, range);
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces);
}

const gets = () => wire.requests.filter(({ method }) => method === 'GET');

test.each([
  ['whole', undefined],
  ['range', { start: 100, end: 9_000 }],
])('resumes a %s after the connection is reset', async (_, range) => {
  wire.fault = ({ method }) => (method === 'GET' && gets().length < 4 ? { kind: 'reset', after: 1_000 } : undefined);
  const expected = range === undefined ? bytes : bytes.subarray(range.start, range.end + 1);
  expect((await readAll(range)).equals(expected)).toBe(true);
  expect(gets().map(({ headers }) => headers['if-match'])).toEqual(Array(4).fill(gets()[0]?.headers['if-match']));
});

test('never takes a body that ends early for the whole', async () => {
  wire.fault = ({ headers }) => (headers.range === undefined ? { kind: 'short', bytes: 5_000 } : undefined);
  expect((await readAll(undefined, bytes.length)).equals(bytes)).toBe(true);
});

test.each([
  ['is reset repeatedly', { kind: 'reset', after: 0 }],
  ['ends early repeatedly', { kind: 'short', bytes: 0 }],
  ['is a page from another server', { kind: 'page' }],
] as const)('a body that %s is StorageUnavailable', async (_, fault) => {
  wire.fault = ({ method }) => (method === 'GET' ? fault : undefined);
  await expect(readAll(undefined, bytes.length)).rejects.toMatchObject({ name: 'StorageUnavailable' });
});

test('a body that is longer than expected is StorageUnavailable', async () => {
  await expect(readAll(undefined, 100)).rejects.toMatchObject({ name: 'StorageUnavailable' });
});

test('a file that is overwritten while it is read is CaptureChanged', async () => {
  wire.put('b', 'changing', bytes);
  const object = await wire.storage.head('b', 'changing');
  wire.fault = ({ key, headers }) => {
    if (key !== 'changing' || headers.range !== undefined) return undefined;
    return { kind: 'reset', after: 1_000 };
  };
  const reading = async () => {
    for await (const _ of await wire.storage.read(object as never)) wire.put('b', 'changing', 'another');
  };
  await expect(reading()).rejects.toMatchObject({ name: 'CaptureChanged' });
});

test('resumes small objects after the connection is reset', async () => {
  let times = 0;
  wire.fault = () => (times++ < 2 ? { kind: 'reset', after: 10 } : undefined);
  expect(await wire.storage.getJson('b', 'json')).toEqual({ a: 'x'.repeat(5_000) });
});

test('does not mistake a page of another server for JSON, a file or an empty listing', async () => {
  wire.fault = () => ({ kind: 'page' });
  const named = { name: 'StorageUnavailable', message: expect.not.stringContaining('Sign in') };
  await expect(wire.storage.getJson('b', 'json')).rejects.toMatchObject(named);
  await expect(wire.storage.head('b', 'json')).rejects.toMatchObject(named);
  await expect(wire.storage.list('b', '').next()).rejects.toMatchObject(named);
});

test('reports an archived file', async () => {
  wire.fault = ({ method }) =>
    method === 'GET' ? { kind: 'error', status: 403, code: 'InvalidObjectState' } : undefined;
  await expect(readAll()).rejects.toMatchObject({ name: 'CaptureArchived' });
});

test('reads the whole records of a replay over a connection that breaks', async () => {
  const { etag = '' } = (await wire.storage.head('b', 'file')) ?? {};
  wire.fault = ({ method }) => (method === 'GET' && gets().length < 3 ? { kind: 'reset', after: 50 } : undefined);
  const files = [{ bucket: 'b', name: 'file', path: '', etag, size: bytes.length }];
  const entry = { timeMs: 0, file: 0, line: 1, start: 500, length: 2_000 };
  const reader = objectReader(wire.storage, files);
  reader.expect([entry]);
  expect((await reader.read(entry)).equals(bytes.subarray(500, 2_500))).toBe(true);
  await reader.close();
});

test('each request that S3 throttles is counted, also where its repetition succeeds', async () => {
  drainThrottles();
  wire.fault = () => (wire.requests.length < 2 ? { kind: 'error', status: 503, code: 'SlowDown' } : undefined);
  expect(await wire.storage.getJson('b', 'json')).toBeDefined();
  expect(drainThrottles()).toMatchObject({ storage: 1 });
  // The reply to HEAD has no body.
  wire.fault = () => ({ kind: 'error', status: 503, code: 'SlowDown' });
  await expect(wire.storage.head('b', 'json')).rejects.toMatchObject({ name: 'StorageThrottled' });
  expect(drainThrottles()).toMatchObject({ storage: 2 });
  wire.fault = () => ({ kind: 'error', status: 500, code: 'InternalError' });
  await expect(wire.storage.head('b', 'json')).rejects.toMatchObject({ name: 'StorageUnavailable' });
  expect(drainThrottles()).toMatchObject({ storage: 0 });
});

const failure = (name: string, httpStatusCode: number): S3ServiceException =>
  new S3ServiceException({ name, message: 'from S3', $fault: 'client', $metadata: { httpStatusCode } });

it.each([
  // An idle connection, which S3 reports as a client error.
  ['RequestTimeout', 400, 'StorageUnavailable', true],
  ['SlowDown', 503, 'StorageThrottled', true],
  ['InternalError', 500, 'StorageUnavailable', true],
  ['TooManyRequests', 429, 'StorageUnavailable', true],
  ['ExpiredToken', 400, 'CredentialsExpired', true],
  ['InvalidRequest', 400, 'StorageRefused', false],
  ['AccessDenied', 403, 'StorageAccessDenied', false],
  ['NoSuchBucket', 404, 'BucketMissing', false],
])('%s (HTTP %d) is %s', (name, status, expected, passes) => {
  const named = namedStorageError(failure(name, status), 's3://bucket/key');
  expect(named).toMatchObject({ name: expected, message: expect.stringContaining(`${name}: HTTP ${status}`) });
  expect(isRetryable(named)).toBe(passes);
});

it('retries a request without any reply', () => {
  expect(isRetryable(namedStorageError(new Error('socket hang up'), 's3://bucket/key'))).toBe(true);
});
