/** The interface of a replay's target, and the encoding of requests that all targets share. */
import type { Origin } from '../http/connection.ts';
import type { LiteralRequest } from './literal.ts';

/** Identity of one request, which the target adds to the request. */
export interface RequestIdentity {
  run: string;
  /** Captured event id, or the place of a record without one. */
  eventKey: string;
  /** Pass over the captures, from 0. */
  pass: number;
  requestId: string;
  /** Masked, since callers of the endpoint may choose event ids. As in AIPerf, each captured request is a conversation. */
  conversationId: string;
}

export interface Encoded {
  /** The request's head and body as bytes. */
  wire: Buffer;
  /** Offset of the body in `wire`. */
  bodyAt: number;
  /** Id that the request is sent with. SageMaker only. */
  inferenceId?: string;
}

/** The server that receives the requests, and their format. */
export interface Target {
  origin: Origin;
  /** Shown to people and stored in `replay.json`; contains no secret. */
  description: Record<string, string>;
  encode(request: LiteralRequest, identity: RequestIdentity): Encoded | Promise<Encoded>;
  /** Lifetime of an encoded request, after which it is encoded again. Absent if it does not expire. */
  goodForMs?: number;
}

const REDACTED = '<redacted>';

/** Redacts a URL, even an invalid one: the user and the values of the query may be secrets. */
export function shownUrl(url: string): string {
  const [whole = ''] = url.split('#', 1);
  const [place = ''] = whole.split('?', 1);
  const host = place.slice(place.lastIndexOf('@') + 1);
  const scheme = host === place ? '' : place.slice(0, place.indexOf('//') + 2);
  if (place.length === whole.length) return scheme + host;
  const query = whole.slice(place.length + 1).split('&');
  const shown = query.map((part) =>
    part.includes('=') ? `${part.slice(0, part.indexOf('=') + 1)}${REDACTED}` : REDACTED,
  );
  return `${scheme}${host}?${shown.join('&')}`;
}

export const USER_AGENT = 'sagemaker-inference-monitor-replay';

/** Characters that are invalid in a header. The user's headers with one are rejected; in captured values they are replaced. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern searches for control characters
const NOT_IN_HEADERS = /[\x00-\x1f\x7f-\uffff]/g;

export const headerSafe = (value: string): string => value.replace(NOT_IN_HEADERS, '?');

/** Encodes a request for the wire. Names and values must not contain line breaks. */
export function httpRequest(method: string, path: string, headers: Iterable<[string, string]>, body: Buffer): Encoded {
  let head = `${method} ${path} HTTP/1.1\r\n`;
  for (const [name, value] of headers) head += `${name}: ${value}\r\n`;
  head += `Content-Length: ${body.length}\r\n\r\n`;
  const bodyAt = Buffer.byteLength(head, 'latin1');
  const wire = Buffer.allocUnsafeSlow(bodyAt + body.length);
  wire.write(head, 0, 'latin1');
  body.copy(wire, bodyAt);
  return { wire, bodyAt };
}

/** Returns the server of a URL. */
export function originOf(url: URL): Origin {
  const tls = url.protocol === 'https:';
  return { tls, hostname: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || (tls ? 443 : 80)) };
}
