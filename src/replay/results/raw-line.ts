/** One line of `profile_export_raw.jsonl`: the request and the reply themselves. */

import { isObject, parseJson } from '../../formats/json.ts';
import { type Measured, repliedBody, streamOf } from '../measure/measure.ts';
import type { PreparedRequest } from '../request/prepared.ts';
import { REDACTED, shownUrl } from '../targets/target.ts';
import { errorJson, metadataJson, type RecordContext } from './record-line.ts';

/** Headers whose values are secrets, or may be, beside those that the user has set. */
const SECRET = /^(authorization|proxy-authorization|cookie|set-cookie)$|token|secret|api-?key|password/i;

function shown(name: string, value: string, secrets: ReadonlySet<string> | undefined): string {
  if (SECRET.test(name) || secrets?.has(name.toLowerCase())) return REDACTED;
  return name.toLowerCase() === 'location' ? shownUrl(value) : value;
}

function sentHeaders({ wire, bodyAt, secretHeaders }: PreparedRequest): Record<string, string> {
  const lines = wire
    .toString('latin1', 0, bodyAt)
    .split('\r\n')
    .slice(1)
    .filter((line) => line !== '');
  return Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':');
      const name = line.slice(0, colon);
      return [name, shown(name, line.slice(colon + 1).trim(), secretHeaders)];
    }),
  );
}

/** What stands where a reply would be that is measured and not kept. */
export const replyNotKept = (bytes: number, why: string): string =>
  JSON.stringify({ reply_not_kept: { bytes, why: `${why}; it was measured` } });

export const tooLarge = (bytes: number): string => replyNotKept(bytes, 'It is larger than what is kept of a reply');

/** Text where the bytes are text, else base64 under a name that says so. */
function replies(measured: Measured, instead: string | undefined): unknown[] {
  const { exchange } = measured;
  const perfNs = (at: number): number => Math.round(at * 1e6);
  const text = instead ?? (exchange.tooLarge ? tooLarge(exchange.bodyBytes) : undefined);
  if (text !== undefined) return [{ perf_ns: perfNs(exchange.endAt), text, content_type: 'application/json' }];
  const stream = streamOf(exchange);
  if (stream) {
    return stream.raw.map(({ at, data }) => ({ perf_ns: perfNs(at), packets: [{ name: 'data', value: data }] }));
  }
  const { bytes: body, contentType } = repliedBody(exchange);
  if (body.length === 0) return [];
  const said = body.toString('utf8');
  const isText = Buffer.from(said, 'utf8').equals(body);
  return [
    isText
      ? { perf_ns: perfNs(exchange.endAt), text: said, content_type: contentType }
      : { perf_ns: perfNs(exchange.endAt), raw_bytes: body.toString('base64'), content_type: contentType },
  ];
}

function payload(wire: Buffer, bodyAt: number): unknown {
  const body = wire.subarray(bodyAt);
  const text = body.toString('utf8');
  const parsed = parseJson(text);
  // The field holds an object: anything else is wrapped.
  if (parsed.ok && isObject(parsed.value)) return parsed.value;
  return Buffer.from(text, 'utf8').equals(body) ? { text } : { base64: body.toString('base64') };
}

/** @param instead JSON that stands for a reply that is not kept */
export function rawLine(measured: Measured, context: RecordContext, instead?: string): string {
  const { request, exchange, error } = measured;
  const fields = {
    start_perf_ns: Math.round(exchange.startedAt * 1e6),
    request_headers: sentHeaders(request),
    ...(exchange.status ? { status: exchange.status } : {}),
    response_headers: Object.fromEntries(
      [...exchange.headers].map(([name, value]) => [name, shown(name, value, request.secretHeaders)]),
    ),
    responses: replies(measured, instead),
    payload: payload(request.wire, request.bodyAt),
  };
  const json = JSON.stringify(fields).slice(1, -1);
  return `{"metadata":${metadataJson(measured, context)},${json}${error ? `,"error":${errorJson(error)}` : ''}}`;
}
