/**
 * An in-process server for the parts of S3's protocol that planning and chunk reading use: conditional reads and writes,
 * ranges, versions, listings. A rule selects the requests that fail. Bodies can break off in the middle.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { S3Client } from '@aws-sdk/client-s3';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';

export interface S3Request {
  method: string;
  bucket: string;
  key: string;
  query: URLSearchParams;
  headers: IncomingMessage['headers'];
}

export type S3Fault =
  /** Sends the first bytes of the body, then resets the connection. */
  | { kind: 'reset'; after: number }
  /** Sends the first bytes of the body as if they were the whole body. */
  | { kind: 'short'; bytes: number }
  | { kind: 'error'; status: number; code: string }
  | { kind: 'page' };

interface Version {
  bytes: Buffer;
  etag: string;
  versionId?: string;
  modified: Date;
}

export class S3Wire {
  readonly requests: S3Request[] = [];
  /** All versions by object; the newest is the last. */
  readonly #objects = new Map<string, Version[]>();
  readonly #server = createServer((message, response) => void this.#answer(message, response));
  #s3: S3Client | undefined;
  fault: (request: S3Request) => S3Fault | undefined = () => undefined;

  static async start(): Promise<S3Wire> {
    const wire = new S3Wire();
    await new Promise<void>((resolve) => wire.#server.listen(0, '127.0.0.1', resolve));
    wire.#s3 = createS3Client({
      endpoint: wire.url,
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      forcePathStyle: true,
      maxAttempts: 2,
    });
    return wire;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get storage(): Storage {
    return new Storage(this.#s3 as S3Client);
  }

  async stop(): Promise<void> {
    this.#s3?.destroy();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  put(bucket: string, key: string, body: string | Buffer, more: { versionId?: string; modified?: Date } = {}): void {
    const bytes = Buffer.from(body);
    const etag = createHash('md5').update(bytes).digest('hex');
    const name = `${bucket}/${key}`;
    const older = more.versionId === undefined ? [] : (this.#objects.get(name) ?? []);
    this.#objects.set(name, [...older, { bytes, etag, modified: new Date(), ...more }]);
  }

  remove(bucket: string, key: string): void {
    this.#objects.delete(`${bucket}/${key}`);
  }

  text(bucket: string, key: string): string | undefined {
    return this.#objects.get(`${bucket}/${key}`)?.at(-1)?.bytes.toString('utf8');
  }

  json<T>(bucket: string, key: string): T | undefined {
    const text = this.text(bucket, key);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  }

  /** Returns the parsed lines of a JSON Lines object. */
  lines<T>(bucket: string, key: string): T[] {
    return (this.text(bucket, key) ?? '')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as T);
  }

  keys(bucket: string): string[] {
    return [...this.#objects.keys()]
      .filter((name) => name.startsWith(`${bucket}/`))
      .map((name) => name.slice(bucket.length + 1))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }

  async #answer(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(message.url ?? '', 'http://s3');
    const [, bucket = '', ...rest] = url.pathname.split('/');
    const key = decodeURIComponent(rest.join('/'));
    const { headers } = message;
    const request = { method: message.method ?? '', bucket, key, query: url.searchParams, headers };
    this.requests.push(request);
    const chunks: Buffer[] = [];
    for await (const chunk of message) chunks.push(chunk as Buffer);
    const fault = this.fault(request);
    if (fault?.kind === 'error') return sendError(response, fault.status, fault.code);
    if (fault?.kind === 'page') {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html><body>Sign in</body></html>');
      return;
    }
    if (key === '') return this.#list(request, response);
    if (request.method === 'PUT') return this.#write(request, Buffer.concat(chunks), response);
    return this.#read(request, response, fault);
  }

  #write({ bucket, key, headers }: S3Request, body: Buffer, response: ServerResponse): void {
    const there = this.#objects.get(`${bucket}/${key}`)?.at(-1);
    const match = headers['if-match'];
    const fails =
      match === undefined ? headers['if-none-match'] === '*' && there !== undefined : match !== `"${there?.etag}"`;
    if (fails) {
      sendError(response, 412, 'PreconditionFailed');
      return;
    }
    this.put(bucket, key, headers['content-encoding']?.includes('aws-chunked') ? unchunked(body) : body);
    const etag = this.#objects.get(`${bucket}/${key}`)?.at(-1)?.etag;
    response.writeHead(200, { etag: `"${etag}"` }).end();
  }

  #read({ bucket, key, query, headers, method }: S3Request, response: ServerResponse, fault?: S3Fault): void {
    const versions = this.#objects.get(`${bucket}/${key}`) ?? [];
    const wanted = query.get('versionId');
    const object = wanted === null ? versions.at(-1) : versions.find(({ versionId }) => versionId === wanted);
    const match = headers['if-match'];
    if (object === undefined || (match !== undefined && match !== `"${object.etag}"`)) {
      if (object === undefined) sendError(response, 404, 'NoSuchKey');
      else sendError(response, 412, 'PreconditionFailed');
      return;
    }
    const range = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '');
    const start = Number(range?.[1] ?? 0);
    const end = range?.[2] ? Number(range[2]) : object.bytes.length - 1;
    const bytes = object.bytes.subarray(start, end + 1);
    const shown = fault?.kind === 'short' ? bytes.subarray(0, fault.bytes) : bytes;
    response.writeHead(range ? 206 : 200, {
      etag: `"${object.etag}"`,
      'content-length': String(shown.length),
      'last-modified': object.modified.toUTCString(),
      ...(object.versionId ? { 'x-amz-version-id': object.versionId } : {}),
      ...(range ? { 'content-range': `bytes ${start}-${end}/${object.bytes.length}` } : {}),
    });
    if (method === 'HEAD') response.end();
    else if (fault?.kind === 'reset') response.write(shown.subarray(0, fault.after), () => response.destroy());
    else response.end(shown);
  }

  #list({ bucket, query }: S3Request, response: ServerResponse): void {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('start-after') ?? '';
    const delimiter = query.get('delimiter');
    const entries = this.keys(bucket)
      .filter((key) => key.startsWith(prefix) && Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0)
      .filter((key) => delimiter === null || !key.slice(prefix.length).includes(delimiter))
      .map((key) => {
        const { etag, bytes, modified } = (this.#objects.get(`${bucket}/${key}`) as Version[]).at(-1) as Version;
        return `<Contents><Key>${key}</Key><ETag>"${etag}"</ETag><Size>${bytes.length}</Size><LastModified>${modified.toISOString()}</LastModified></Contents>`;
      });
    const body = `<ListBucketResult><IsTruncated>false</IsTruncated>${entries.join('')}</ListBucketResult>`;
    response.writeHead(200, { 'content-type': 'application/xml' }).end(body);
  }
}

function sendError(response: ServerResponse, status: number, code: string): void {
  const body = `<Error><Code>${code}</Code><Message>from S3</Message></Error>`;
  response.writeHead(status, { 'content-type': 'application/xml' }).end(body);
}

/** Decodes the body of an upload with a trailing checksum. */
function unchunked(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const head = body.indexOf('\r\n', at);
    const size = Number.parseInt(body.toString('latin1', at, head), 16);
    if (!(size > 0)) break;
    parts.push(body.subarray(head + 2, head + 2 + size));
    at = head + 2 + size + 2;
  }
  return Buffer.concat(parts);
}
