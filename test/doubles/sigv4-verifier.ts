/**
 * Checks a SigV4 signature as a service does: recomputes it from the request as it arrived. It is written from AWS's
 * description of the signing process and shares no code with the product's signer, so that no mistake can hide in both.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Refusal } from './recording-endpoint.ts';

export interface SigV4Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/,\s]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request,\s*SignedHeaders=([^,\s]+),\s*Signature=([0-9a-f]{64})$/;

/** AWS accepts a clock skew of five minutes. */
const CLOCK_SKEW_MS = 5 * 60_000;

const MUST_BE_SIGNED = ['host', 'x-amz-date'];

const sha256 = (data: Buffer | string): string => hash('sha256', data);
const hmac = (key: Buffer | string, data: string): Buffer => createHmac('sha256', key).update(data).digest();

/** @returns why the request is refused; `undefined` if its signature is valid */
export function verifySigV4(check: {
  message: Pick<IncomingMessage, 'method' | 'url' | 'headers'>;
  body: Buffer;
  credentials: SigV4Credentials;
  /** Default: any. */
  region?: string;
  /** The signing name, e.g. `sagemaker`. */
  service: string;
  now?: Date;
  /** For tests that cannot wait five minutes. */
  maxSkewMs?: number;
}): Refusal | undefined {
  const { message, body, credentials, service, maxSkewMs = CLOCK_SKEW_MS } = check;
  const parts = AUTHORIZATION.exec(message.headers.authorization ?? '');
  if (!parts) return refusal('MissingAuthenticationTokenException', 'Missing Authentication Token');
  const [, keyId, day = '', signedRegion = '', signedService, signedHeaders = '', signature = ''] = parts;
  const region = check.region ?? signedRegion;
  if (keyId !== credentials.accessKeyId || header(message, 'x-amz-security-token') !== credentials.sessionToken) {
    return refusal('UnrecognizedClientException', 'The security token included in the request is invalid.');
  }
  if (signedRegion !== region || signedService !== service) {
    const scope = `Credential should be scoped to region '${region}' and service '${service}'`;
    return refusal('InvalidSignatureException', `${scope}, not '${signedRegion}' and '${signedService}'.`);
  }
  const date = header(message, 'x-amz-date') ?? '';
  const skew = Math.abs((check.now ?? new Date()).getTime() - parseDate(date));
  if (!date.startsWith(day) || !(skew <= maxSkewMs)) {
    return refusal(
      'InvalidSignatureException',
      `Signature expired: ${date} is not within ${maxSkewMs / 60_000} minutes of now`,
    );
  }
  const names = signedHeaders.split(';');
  const missing = MUST_BE_SIGNED.filter((name) => !names.includes(name));
  if (missing.length > 0) return refusal('InvalidSignatureException', `Not signed: ${missing.join(', ')}`);
  const payloadHash = sha256(body);
  if ((header(message, 'x-amz-content-sha256') ?? payloadHash) !== payloadHash) {
    return refusal('InvalidSignatureException', 'The body does not match X-Amz-Content-SHA256');
  }
  const canonical = canonicalRequest(message, names, payloadHash);
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n');
  const key = [day, region, service, 'aws4_request'].reduce<Buffer | string>(
    hmac,
    `AWS4${credentials.secretAccessKey}`,
  );
  if (timingSafeEqual(hmac(key, text), Buffer.from(signature, 'hex'))) return undefined;
  return refusal(
    'InvalidSignatureException',
    'The request signature we calculated does not match the one you provided',
  );
}

/** Refuses requests to SageMaker without a valid signature by this key. @param maxSkewMs see `verifySigV4` */
export const signedBy =
  (credentials: SigV4Credentials, maxSkewMs?: number) =>
  (message: IncomingMessage, body: Buffer): Refusal | undefined =>
    verifySigV4({ message, body, credentials, service: 'sagemaker', maxSkewMs });

const refusal = (type: string, message: string): Refusal => ({ status: 403, type, message });

function header(message: Pick<IncomingMessage, 'headers'>, name: string): string | undefined {
  // The service's front end removes this header before the signature is checked.
  if (name === 'connection') return undefined;
  const value = message.headers[name];
  return Array.isArray(value) ? value.join(',') : value;
}

/** Parses `20261120T101500Z` to epoch milliseconds. */
function parseDate(date: string): number {
  return Date.parse(date.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
}

function canonicalRequest(
  message: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
  signedNames: string[],
  payloadHash: string,
): string {
  const [path = '/', query = ''] = (message.url ?? '/').split('?');
  // Every service except S3 encodes the path once more than it is encoded in the request.
  const canonicalPath = path.split('/').map(encode).join('/');
  const canonicalQuery = query
    .split('&')
    .filter(Boolean)
    .map((pair) => {
      const at = pair.indexOf('=');
      const [name, value] = at < 0 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
      // A `+` is literal here, not a space.
      return `${encode(decodeURIComponent(name))}=${encode(decodeURIComponent(value))}`;
    })
    .sort()
    .join('&');
  const headers = signedNames.map((name) => `${name}:${(header(message, name) ?? '').trim().replace(/\s+/g, ' ')}\n`);
  return [message.method, canonicalPath, canonicalQuery, headers.join(''), signedNames.join(';'), payloadHash].join(
    '\n',
  );
}

/** Encodes as RFC 3986 requires: everything except letters, digits and `-_.~` as %XX. */
const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
