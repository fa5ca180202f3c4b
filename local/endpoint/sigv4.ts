/**
 * Checks a SigV4 signature from the bytes of the request, as an AWS service does. Written from AWS's description of the
 * signing process and apart from the signer the product uses, so that a mistake cannot hide in both.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

export interface SigningKey {
  accessKeyId: string;
  secretAccessKey: string;
}

export interface SignedRequest {
  method: string;
  /** Path and query as they came on the wire. */
  url: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** AWS refuses a signature whose time is further off than this. */
const MAX_SKEW_MS = 5 * 60_000;

const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex');
const hmac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest();

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

function canonicalQuery(query: string): string {
  const pairs = [...new URLSearchParams(query)].map(([name, value]) => `${encode(name)}=${encode(value)}`);
  return pairs.sort().join('&');
}

/** `20261120T100000Z` as epoch milliseconds; NaN when it is not of that form. */
function amzDate(text: string): number {
  const parts = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  if (!parts) return Number.NaN;
  return Date.parse(`${parts[1]}-${parts[2]}-${parts[3]}T${parts[4]}:${parts[5]}:${parts[6]}Z`);
}

/**
 * `undefined` when the signature is right, else why it is refused, in words.
 *
 * @param service the signing name, e.g. `sagemaker`
 * @param maxSkewMs for tests that cannot wait for five minutes
 */
export function signatureProblem(
  request: SignedRequest,
  key: SigningKey,
  service: string,
  maxSkewMs = MAX_SKEW_MS,
): string | undefined {
  const header = (name: string): string => String(request.headers[name] ?? '');
  const authorization = header('authorization');
  const parts = /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
    authorization,
  );
  if (!parts) return `Authorization is not of the SigV4 form: ${authorization.slice(0, 60) || '(none)'}`;
  const [, credential = '', signedHeaders = '', signature = ''] = parts;
  const [accessKeyId, day, region, scopeService, terminator] = credential.split('/');
  if (accessKeyId !== key.accessKeyId) return 'The security token included in the request is invalid.';
  if (scopeService !== service || terminator !== 'aws4_request') {
    return `Credential should be scoped to correct service: '${service}', got '${scopeService}'.`;
  }
  const date = header('x-amz-date');
  const skew = Math.abs(Date.now() - amzDate(date));
  if (!(skew <= maxSkewMs)) return `Signature expired or not yet valid: x-amz-date ${date}`;
  if (!date.startsWith(day ?? '?')) return `Credential's day ${day} is not that of x-amz-date ${date}`;

  const names = signedHeaders.split(';');
  for (const needed of ['host', 'x-amz-date']) {
    if (!names.includes(needed)) return `'${needed}' must be a signed header`;
  }
  const payloadHash = sha256(request.body);
  const announced = header('x-amz-content-sha256');
  if (announced && announced !== payloadHash) return 'x-amz-content-sha256 does not match the body';

  const [path = '', query = ''] = request.url.split('?');
  const canonical = [
    request.method,
    // Every service but S3 encodes the path once more than the wire does.
    path.split('/').map(encode).join('/'),
    canonicalQuery(query),
    ...names.map((name) => `${name}:${header(name).trim().replace(/ +/g, ' ')}`),
    '',
    signedHeaders,
    payloadHash,
  ].join('\n');
  const scope = `${day}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n');
  const derived = [day ?? '', region ?? '', service, 'aws4_request'].reduce<string | Buffer>(
    (from, part) => hmac(from, part),
    `AWS4${key.secretAccessKey}`,
  );
  const expected = hmac(derived, toSign);
  if (timingSafeEqual(expected, Buffer.from(signature, 'hex'))) return undefined;
  return 'The request signature we calculated does not match the signature you provided.';
}
