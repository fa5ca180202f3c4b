import type { Origin } from '../http/connection.ts';
import type { LiteralRequest } from '../request/literal.ts';
import type { Turn } from '../request/sessions.ts';

/** Identity of one request, which the target puts on the wire. */
export interface RequestIdentity {
  run: string;
  /** Captured event id, else the place of the record. */
  eventKey: string;
  /** Repetition of the captures, from 0. */
  pass: number;
  requestId: string;
  turn: Turn;
}

export interface Encoded {
  /** Head and body. */
  wire: Buffer;
  bodyAt: number;
  inferenceId?: string;
}

/** Where requests go and in which form. */
export interface Target {
  origin: Origin;
  /** For people and for the run's own file; holds no secret. */
  description: Record<string, string>;
  /** Names, in lower case, of headers that the user has set: whatever they are called, they may be secrets. */
  secretHeaders?: ReadonlySet<string>;
  encode(request: LiteralRequest, identity: RequestIdentity): Encoded | Promise<Encoded>;
  /** There when an encoded request is good for a time only: after this it is encoded anew. */
  goodForMs?: number;
}

export const REDACTED = '<redacted>';

/** A URL for people, also one that cannot be used: a user, and the values of a query, may be secrets. */
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

/** Characters that would end a header or a line. Header values are checked when they are read, captured ones here. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const NOT_IN_HEADERS = /[\x00-\x1f\x7f-\uffff]/g;

export const headerSafe = (value: string): string => value.replace(NOT_IN_HEADERS, '?');

/** A request as it goes on the wire. Names and values must be free of line breaks. */
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

/** The Host header: without the port that the protocol has by default. */
export const hostHeader = ({ tls, hostname, port }: Origin): string => {
  const name = hostname.includes(':') ? `[${hostname}]` : hostname;
  return port === (tls ? 443 : 80) ? name : `${name}:${port}`;
};

/** Where a URL's connections go. */
export function originOf(url: URL): Origin {
  const tls = url.protocol === 'https:';
  return { tls, hostname: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || (tls ? 443 : 80)) };
}
