/** Finds the first token of a captured stream: the capture client wrote when each piece of the reply came. */
import type { ClientCall, WrittenCall } from '../client-call.ts';
import { isObject } from '../json.ts';
import { announcedBy, payloadBytes } from '../payload/captured-data.ts';
import { isCompressed } from '../payload/decode-payload.ts';
import { StreamReader } from './stream-reader.ts';

/**
 * Returns the call with the time of its first token (the arrival of the piece that completes the first content), or
 * with the reason why it is unknown.
 *
 * @param reply `endpointOutput` as captured; `undefined` if it must not be read
 */
export function withFirstToken({ pieces, pieceCount, left, ...call }: WrittenCall, reply: unknown): ClientCall {
  if (!call.streamed || call.ended === 'failed') return call;
  const found = firstToken({ pieces, pieceCount, left }, reply);
  return { ...call, ...(typeof found === 'number' ? { firstTokenMs: found } : { noFirstToken: found }) };
}

function firstToken({ pieces, pieceCount, left }: Partial<WrittenCall>, reply: unknown): number | string {
  if (left?.reply !== undefined) return `the reply was left out: ${left.reply}`;
  if (pieces === undefined) return 'the times of its pieces were not kept';
  const bytes = isObject(reply) ? payloadBytes(reply) : '';
  if (typeof bytes === 'string') return 'the reply was not read';
  const kept = pieces.reduce((sum, [, size]) => sum + size, 0);
  const areAll = (pieceCount ?? pieces.length) === pieces.length;
  if (areAll ? kept !== bytes.length : kept > bytes.length) return 'its pieces do not add up to the reply';
  if (isCompressed(bytes)) return 'the reply is compressed';
  const reader = new StreamReader(announcedBy(reply).contentType, bytes.length);
  let from = 0;
  // The arrival time of the remaining bytes is unknown.
  for (const [ms, size] of [...pieces, [Number.NaN, bytes.length - kept] as const]) {
    reader.piece(bytes.subarray(from, from + size), ms);
    from += size;
    if (reader.hasFirst) break;
  }
  if (!reader.hasFirst) reader.end();
  const [first] = reader.contentAt;
  if (first === undefined) return 'the reply has no content';
  if (!reader.isStream) return 'the reply is no stream of text';
  return Number.isNaN(first) ? 'the content begins after the last kept piece' : first;
}
