/** Formats a line of `profile_export_raw.jsonl`: the request and the reply themselves. */

import { isUtf8 } from 'node:buffer';
import { isObject, parseJson } from '../../formats/json.ts';
import type { Exchange } from '../http/exchange.ts';
import { type Measured, repliedBody, streamOf } from '../measure/measure.ts';
import type { PreparedRequest } from '../request/prepared.ts';
import { REDACTED, shownUrl } from '../targets/target.ts';
import { errorJson, metadataJson, type RecordContext } from './record-line.ts';

/** Headers whose values may be secrets, in addition to those that the user has set. */
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

/** Returns the placeholder for a reply that was measured but not kept. */
export const replyNotKept = (bytes: number, why: string): string =>
  JSON.stringify({ reply_not_kept: { bytes, why: `${why}; it was measured` } });

/** Returns the text that replaces a reply that was too large to be kept; `undefined` for other replies. */
export const replacementOf = ({ tooLarge, bodyBytes }: Exchange): string | undefined =>
  tooLarge ? replyNotKept(bodyBytes, 'It is larger than the limit for replies') : undefined;

/** Returns the reply as text if its bytes are text, otherwise in base64. */
function replies(measured: Measured, instead: string | undefined): unknown[] {
  const { exchange } = measured;
  const perfNs = (at: number): number => Math.round(at * 1e6);
  const text = instead ?? replacementOf(exchange);
  if (text !== undefined) return [{ perf_ns: perfNs(exchange.endAt), text, content_type: 'application/json' }];
  const stream = streamOf(exchange);
  if (stream) {
    return stream.raw.map(({ at, data }) => ({ perf_ns: perfNs(at), packets: [{ name: 'data', value: data }] }));
  }
  const { bytes: body, contentType } = repliedBody(exchange);
  if (body.length === 0) return [];
  const content = isUtf8(body) ? { text: body.toString('utf8') } : { raw_bytes: body.toString('base64') };
  return [{ perf_ns: perfNs(exchange.endAt), ...content, content_type: contentType }];
}

function payload(wire: Buffer, bodyAt: number): unknown {
  const body = wire.subarray(bodyAt);
  const text = body.toString('utf8');
  const parsed = parseJson(text);
  // AIPerf expects an object here: other values are wrapped.
  if (parsed.ok && isObject(parsed.value)) return parsed.value;
  return isUtf8(body) ? { text } : { base64: body.toString('base64') };
}

/** @param instead JSON that replaces a reply that was not kept */
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
