/** Sends requests to a URL. */
import { PermanentError } from '../../core/errors/errors.ts';
import type { Origin } from '../http/connection.ts';
import type { LiteralRequest } from '../request/literal.ts';
import {
  CHATS,
  type Encoded,
  headerSafe,
  hostHeader,
  httpRequest,
  originOf,
  type RequestIdentity,
  shownUrl,
  type Target,
  USER_AGENT,
} from './target.ts';

/** Returns the path for a captured request when the URL has none. */
function pathFor(json: Record<string, unknown> | undefined): string {
  if (json?.messages !== undefined) return CHATS;
  if (json?.prompt !== undefined) return '/v1/completions';
  if (json?.input !== undefined) return '/v1/embeddings';
  return '/invocations';
}

/** Headers that the replay sets itself. */
const RESERVED = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'x-request-id',
  'x-correlation-id',
]);

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

/** An OpenAI-compatible server, a container's `/invocations`, or any other URL that accepts the captured bodies. */
export class UrlTarget implements Target {
  readonly origin;
  readonly description;
  readonly #path: string | undefined;
  /** Appended to every path. */
  readonly #query: string;
  readonly #headers: [string, string][];
  /** Lower-case names of the headers. */
  readonly #given: ReadonlySet<string>;
  readonly #host: string;

  /**
   * @param url all requests are sent to its path; without a path, each is sent to the path for its format
   * @param refuses whether no connection may be opened to an IP address
   * @throws PermanentError `InvalidTarget`, `InvalidHeader`
   */
  constructor(url: string, headers: Record<string, string> = {}, refuses?: Origin['refuses']) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (!parsed || !/^https?:$/.test(parsed.protocol)) {
      const expected = 'http://host:port[/path] or https://…';
      throw new PermanentError('InvalidTarget', 'The target is not a URL', { got: shownUrl(url), expected });
    }
    if (parsed.username || parsed.password) {
      const expected = 'credentials in a header (--headers-file or --headers-secret)';
      throw new PermanentError('InvalidTarget', 'The URL of the target contains credentials', {
        got: parsed.host,
        expected,
      });
    }
    this.origin = { ...originOf(parsed), refuses };
    this.#host = hostHeader(this.origin);
    this.#path = parsed.pathname === '/' ? undefined : parsed.pathname;
    this.#query = parsed.search;
    this.#headers = checkHeaders(headers);
    this.#given = new Set(this.#headers.map(([name]) => name.toLowerCase()));
    this.description = { kind: 'url', url: shownUrl(`${parsed.origin}${this.#path ?? ''}${this.#query}`) };
  }

  encode(request: LiteralRequest, identity: RequestIdentity): Encoded {
    const own: [string, string][] = [
      ['Host', this.#host],
      ['User-Agent', USER_AGENT],
      ['Accept', request.streaming ? 'text/event-stream' : '*/*'],
      ['Content-Type', request.contentType],
      ['X-Request-ID', identity.requestId],
      ['X-Correlation-ID', headerSafe(identity.turn.conversationId)],
    ];
    const headers = [...own.filter(([name]) => !this.#given.has(name.toLowerCase())), ...this.#headers];
    return httpRequest('POST', `${this.#path ?? pathFor(request.json)}${this.#query}`, headers, request.body);
  }
}
