/** Finds the first token of a captured stream: the capture client wrote when each piece of the reply came. */
import type { ClientCall, WrittenCall } from '../client-call.ts';
import { isObject } from '../json.ts';
import { announcedBy, payloadBytes } from '../payload/captured-data.ts';
import { isCompressed } from '../payload/decode-payload.ts';
import { StreamReader } from './stream-reader.ts';

/**
 * Returns the call with the time of its first token, the piece that ends the first content; or with the reason why there is none.
 *
 * @param reply `endpointOutput` as captured; `undefined` if it is not to be read
 */
export function withFirstToken({ pieces, pieceCount, left, ...call }: WrittenCall, reply: unknown): ClientCall {
  if (!call.streamed || call.ended === 'failed') return call;
  if (left?.reply !== undefined) return { ...call, noFirstToken: `the reply was left out: ${left.reply}` };
  if (pieces === undefined) return { ...call, noFirstToken: 'the times of its pieces were not kept' };
  const bytes = isObject(reply) ? payloadBytes(reply) : '';
  if (typeof bytes === 'string') return { ...call, noFirstToken: 'the reply was not read' };
  const kept = pieces.reduce((sum, [, size]) => sum + size, 0);
  const areAll = (pieceCount ?? pieces.length) === pieces.length;
  if (areAll ? kept !== bytes.length : kept > bytes.length)
    return { ...call, noFirstToken: 'its pieces do not add up to the reply' };
  if (isCompressed(bytes)) return { ...call, noFirstToken: 'the reply is compressed' };
  return { ...call, ...firstContent(bytes, pieces, announcedBy(reply).contentType) };
}

type FirstToken = Pick<ClientCall, 'firstTokenMs' | 'noFirstToken'>;

function firstContent(bytes: Buffer, pieces: [number, number][], contentType: string | null): FirstToken {
  const reader = new StreamReader(contentType, bytes.length);
  let from = 0;
  for (const [ms, size] of pieces) {
    reader.piece(bytes.subarray(from, from + size), ms);
    from += size;
    if (reader.hasFirst) return { firstTokenMs: reader.contentAt[0] };
  }
  // Nobody knows when the rest came.
  if (from < bytes.length) reader.piece(bytes.subarray(from), Number.NaN);
  reader.end();
  const [first] = reader.contentAt;
  if (first === undefined) return { noFirstToken: 'the reply has no content' };
  if (!reader.isStream) return { noFirstToken: 'the reply is no stream of text' };
  return Number.isNaN(first)
    ? { noFirstToken: 'the content begins after the last kept piece' }
    : { firstTokenMs: first };
}
