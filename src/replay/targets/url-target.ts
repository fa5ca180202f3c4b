/** Sends requests to a URL. */

import { loadSecret } from '../../core/aws/secret.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import type { Origin } from '../http/connection.ts';
import { headerSafe, httpRequest, originOf, shownUrl, type Target, USER_AGENT } from '../request/target.ts';
import HEADERS from './reserved-headers.json' with { type: 'json' };

/** The path of OpenAI’s chats. */
export const CHATS = '/v1/chat/completions';

/** Returns the path for a captured request if the URL has no path. */
function pathFor(json: Record<string, unknown> | undefined): string {
  if (json?.messages !== undefined) return CHATS;
  if (json?.prompt !== undefined) return '/v1/completions';
  if (json?.input !== undefined) return '/v1/embeddings';
  return '/invocations';
}

/** Headers that the replay sets itself. */
const RESERVED = new Set(HEADERS);

const NOT_A_NAME = 'not a header name';

/** @throws PermanentError `InvalidHeader` */
function checkHeaders(headers: Record<string, string>): [string, string][] {
  return Object.entries(headers).map(([name, value]) => {
    const problem = RESERVED.has(name.toLowerCase())
      ? 'the replay sets this header itself'
      : !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)
        ? NOT_A_NAME
        : headerSafe(value) !== value
          ? 'its value contains characters that are invalid in a header'
          : undefined;
    if (!problem) return [name, value];
    // The value may be a secret, and an invalid name may contain one: neither is shown.
    const got = problem === NOT_A_NAME ? `a text of ${name.length} characters before the colon` : name;
    throw new PermanentError('InvalidHeader', `A header cannot be sent: ${problem}`, { got });
  });
}

/**
 * An OpenAI-compatible server, a container's `/invocations`, or any other URL that accepts the captured bodies.
 *
 * @param url all requests are sent to its path; without a path, each is sent to the path for its format
 * @param refuses whether no connection may be opened to an IP address
 * @throws PermanentError `InvalidTarget`, `InvalidHeader`
 *
 * @example
 *     const target = urlTarget('http://127.0.0.1:8000/invocations', { authorization: 'Bearer …' });
 */
export function urlTarget(url: string, headers: Record<string, string> = {}, refuses?: Origin['refuses']) {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    const expected = 'http://host:port[/path] or https://…';
    throw new PermanentError('InvalidTarget', 'The target is not a URL', { got: shownUrl(url), expected });
  }
  if (parsed.username || parsed.password) {
    const facts = { got: parsed.host, expected: 'credentials in a header (--headers-file or --headers-secret)' };
    throw new PermanentError('InvalidTarget', 'The URL of the target contains credentials', facts);
  }
  const origin = { ...originOf(parsed), refuses };
  const path = parsed.pathname === '/' ? undefined : parsed.pathname;
  const query = parsed.search;
  const given = checkHeaders(headers);
  const names = new Set(given.map(([name]) => name.toLowerCase()));
  return {
    origin,
    description: { kind: 'url', url: shownUrl(`${parsed.origin}${path ?? ''}${query}`) },
    encode: (request, identity) => {
      const own: [string, string][] = [
        ['Host', parsed.host],
        ['User-Agent', USER_AGENT],
        ['Accept', request.streaming ? 'text/event-stream' : '*/*'],
        ['Content-Type', request.contentType],
        ['X-Request-ID', identity.requestId],
        ['X-Correlation-ID', headerSafe(identity.conversationId)],
      ];
      const sent = [...own.filter(([name]) => !names.has(name.toLowerCase())), ...given];
      return httpRequest('POST', `${path ?? pathFor(request.json)}${query}`, sent, request.body);
    },
  } satisfies Target;
}

// ------------------------------------------------------------------------------------------------------------- headers
// Reads the headers of a URL target from the command line, a file or a secret.

/**
 * @param unavailable the name of an error while Secrets Manager fails; absent: it is one of the others
 * @throws PermanentError `HeadersUnavailable`, `InvalidHeader`
 */
export async function secretHeaders(secretId: string, unavailable?: 'OtlpUnavailable') {
  const names = { unreadable: 'HeadersUnavailable', unavailable } as const;
  const { text } = await loadSecret(undefined, secretId, names, 'The secret with the headers');
  const headers = parseHeaders(text, secretId);
  if (Object.keys(headers).length > 0) return headers;
  return refuse('The secret contains no header', secretId);
}

/** Leaves out the header's text, which may be a secret. */
function refuse(message: string, where: string): never {
  const expected = 'a JSON object of names and values, or lines of "Name: value"';
  throw new PermanentError('InvalidHeader', message, { expected, where });
}

/**
 * Parses a JSON object of names and values, or lines of `Name: value`. Empty lines and lines that start with `#` are ignored.
 *
 * @throws PermanentError `InvalidHeader`
 *
 * @example
 *     parseHeaders('Authorization: Bearer …', 'headers.txt')   // { Authorization: 'Bearer …' }
 */
export function parseHeaders(text: string, where: string): Record<string, string> {
  if (text.trimStart().startsWith('{')) {
    const value = jsonIn(text);
    if (value === undefined) refuse('The headers are not valid JSON', where);
    const entries = Object.entries(value as Record<string, unknown>);
    if (entries.some(([, header]) => typeof header !== 'string'))
      refuse('The value of a header is not a string', where);
    return Object.fromEntries(entries) as Record<string, string>;
  }
  const headers: Record<string, string> = {};
  for (const [i, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const colon = line.indexOf(':');
    if (colon <= 0) refuse('A line is not a header', `${where}, line ${i + 1}`);
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}
