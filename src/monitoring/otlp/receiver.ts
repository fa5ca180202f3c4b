/** Sends spans and verdicts to an OpenTelemetry receiver, or to the REST API of Arize Phoenix, in requests of a limited size. */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { isObject } from '../../captures/json.ts';
import type { OtlpMetric } from '../../core/contract/metric-names.ts';
import { PermanentError, RetryableError } from '../../core/errors/errors.ts';
import { logger } from '../../core/process/logging.ts';
import { type RetryPolicy, readRetryAfter, withRetries } from '../../core/process/retry.ts';
import type { OtlpEnvironment } from '../../core/settings/environment.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { sum } from '../../core/values/sum.ts';
import { rejectedSpans } from '../../mlflow/otlp.ts';
import { createHttpTransport, type HttpReply, NoReplyError } from '../../mlflow/transport.ts';
import { secretHeaders } from '../../replay/targets/url-target.ts';

/** A trace, or a verdict. */
export interface Sendable {
  /** A request of OTLP by itself, or JSON for Phoenix. */
  bytes: Uint8Array;
  /** Spans or verdicts. */
  items: number;
  /** The span of an annotation. */
  spanId?: string;
}

/** The paths below the address. */
export const PATHS = { captures: 'v1/traces', verdicts: 'v1/logs', annotations: 'v1/span_annotations?sync=true' };

/** Longer outages are left to the queue. */
const RETRY: RetryPolicy = { attempts: 4, baseMs: 500, capMs: 8_000, longestRetryAfterMs: 30_000 };
const TIMEOUT_MS = 60_000;
/** The statuses after which the specification allows a retry: https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes */
const AGAIN = new Set([429, 502, 503, 504]);
const [NOT_FOUND, TOO_LARGE] = [404, 413];
/** The default limit of collectors. */
const MOST_BYTES = 4 * 1024 * 1024;
const MOST_ITEMS = 512;

const itemsIn = (some: readonly Sendable[]): number => sum(some.map(({ items }) => items));

/**
 * Reads the headers, and returns a function that sends all items to a path of `PATHS`. It throws RetryableError `OtlpUnavailable` (429, 502,
 * 503, 504, no answer), `OtlpSpanMissing` after the others were sent; PermanentError `OtlpUnauthorized`, `OtlpRefused`,
 * `OtlpAnswerUnreadable`.
 *
 * @param count is told how many spans and verdicts each request has brought, or the receiver has rejected
 * @throws PermanentError `HeadersUnavailable`, `InvalidHeader`; RetryableError `OtlpUnavailable` while Secrets Manager fails
 *
 * @example
 *     const send = await connectOtlp(environment, (metric, value) => metrics.addMetric(metric, 'Count', value));
 *     await send(PATHS.captures, spans);
 */
export async function connectOtlp(
  { OTLP_ENDPOINT: endpoint, OTLP_SECRET_ARN: secret }: Pick<OtlpEnvironment, 'OTLP_ENDPOINT' | 'OTLP_SECRET_ARN'>,
  count: (metric: OtlpMetric, value: number) => void,
  retry: Partial<RetryPolicy> = {},
) {
  const headers = secret === undefined ? {} : await secretHeaders(secret, 'OtlpUnavailable');
  return async (path: string, all: AsyncIterable<Sendable> | Iterable<Sendable>): Promise<void> => {
    const url = new URL(path, endpoint.endsWith('/') ? endpoint : `${endpoint}/`);
    const missing = new Set<string>();
    const send = async (some: Sendable[]): Promise<void> => {
      if (some.length === 0) return;
      const reply = await withRetries({ ...RETRY, ...retry }, () => post(url, headers, some));
      const said = reply.body.toString();
      // Phoenix names the spans that it does not have, and takes none of the annotations.
      const isMissing = ({ spanId = '' }: Sendable) =>
        reply.status === NOT_FOUND && spanId !== '' && said.includes(spanId);
      const known = some.filter((one) => !isMissing(one));
      for (const { spanId = '' } of some.filter(isMissing)) missing.add(spanId);
      if (known.length < some.length) return send(known);
      if (reply.status === TOO_LARGE && some.length > 1) {
        const half = Math.ceil(some.length / 2);
        return send(some.slice(0, half)).then(() => send(some.slice(half)));
      }
      const rejected = reply.status === TOO_LARGE ? itemsIn(some) : rejectedIn(checked(reply, url), url);
      count('OtlpSent', Math.max(0, itemsIn(some) - rejected));
      if (rejected === 0) return;
      logger.error('The receiver rejected spans or verdicts', { path, rejected, items: itemsIn(some) });
      count('OtlpRejected', rejected);
    };
    let open: Sendable[] = [];
    let bytes = 0;
    for await (const one of all) {
      bytes += one.bytes.length;
      if (bytes > MOST_BYTES || itemsIn(open) + one.items > MOST_ITEMS) {
        await send(open);
        [open, bytes] = [[], one.bytes.length];
      }
      open.push(one);
    }
    await send(open);
    const got = `${missing.size} spans, such as ${[...missing][0]}`;
    const message = 'Phoenix does not have the spans of some verdicts yet';
    if (missing.size > 0) throw new RetryableError('OtlpSpanMissing', message, { got, where: url.href });
  };
}

/** @throws RetryableError `OtlpUnavailable`, PermanentError `InvalidHeader` */
async function post(url: URL, headers: Record<string, string>, some: readonly Sendable[]): Promise<HttpReply> {
  const isJson = some[0]?.spanId !== undefined;
  const parts = some.map(({ bytes }) => bytes);
  // Requests of OTLP one after the other are one request.
  const body = isJson ? Buffer.from(`{"data":[${parts.join(',')}]}`) : await promisify(gzip)(Buffer.concat(parts));
  const form = isJson ? 'application/json' : 'application/x-protobuf';
  const own = { 'content-type': form, ...(!isJson && { 'content-encoding': 'gzip' }) };
  const transport = createHttpTransport();
  const facts = { where: url.href };
  try {
    const request = { method: 'POST', url, headers: { ...headers, ...own }, body, timeoutMs: TIMEOUT_MS };
    const reply = await transport.send(request);
    if (!AGAIN.has(reply.status)) return reply;
    const got = `HTTP ${reply.status}`;
    const ms = readRetryAfter(reply.headers['retry-after']);
    const message = 'The receiver has no room, or is down';
    throw new RetryableError('OtlpUnavailable', message, { got, ...facts }, undefined, ms);
  } catch (error) {
    if (error instanceof RetryableError) throw error;
    // Node names the header, and not its value.
    if (!(error instanceof NoReplyError)) throw new PermanentError('InvalidHeader', 'A header cannot be sent', facts);
    const got = error.code;
    throw new RetryableError('OtlpUnavailable', 'There is no answer from the receiver', { got, ...facts }, error);
  } finally {
    transport.close();
  }
}

function checked(reply: HttpReply, { href: where }: URL): HttpReply {
  const { status } = reply;
  if (status >= 200 && status < 300) return reply;
  const facts = { got: `HTTP ${status}`, where };
  if (status !== 401 && status !== 403)
    throw new PermanentError('OtlpRefused', 'The receiver refused a request', facts);
  const expected = 'headers in the secret of OTLP_SECRET_ARN that may send';
  throw new PermanentError('OtlpUnauthorized', 'The receiver did not accept the headers', { ...facts, expected });
}

/** Returns how many items of an accepted request the receiver rejected. Answers about spans and about log records have the same form. */
function rejectedIn({ body, headers }: HttpReply, { href: where }: URL): number {
  const json = jsonIn(body);
  const { rejectedSpans: spans = 0, rejectedLogRecords: logs = spans } = Object(Object(json).partialSuccess);
  const rejected = isObject(json) ? Number(logs) : rejectedSpans(body);
  if (rejected !== undefined && rejected >= 0) return rejected;
  const facts = { got: `${body.length} bytes of ${headers['content-type'] ?? 'no type'}`, where };
  throw new PermanentError('OtlpAnswerUnreadable', 'The answer is not from an OpenTelemetry receiver', facts);
}
