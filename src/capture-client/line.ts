/** Writes a call as a line of SageMaker's Data Capture, with the object `client` beside it: docs/capture-client.md. */
import { isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import type { Call, Side } from './call.ts';

/** Bytes that are encoded at once. A multiple of 3, so that pieces of base64 can be joined. */
const SLICE = 48 * 1024;

export interface LineFacts {
  calls: 'streams' | 'all';
  sampling: number;
  /** Captures that were lost since the last line. */
  dropped: number;
}

/** Yields the line in pieces of bounded size and work, so that other work can run between two of them. */
export function* lineOf(call: Call, facts: LineFacts): Generator<string> {
  const { request, reply, startMs, id } = call;
  const { inferenceId, customAttributes, streamed } = call.facts;
  yield '{"captureData":{"endpointInput":';
  yield* sideOf(
    request,
    'INPUT',
    isJson(request.contentType) ? 'JSON' : isText(request.contentType) ? 'CSV' : 'BASE64',
  );
  if (call.ended !== 'failed' || reply.total > 0) {
    yield ',"endpointOutput":';
    const isError = call.ended === 'failed';
    const text = streamed ? 'CSV' : isJson(reply.contentType) ? 'JSON' : isText(reply.contentType) ? 'CSV' : 'BASE64';
    yield* sideOf(reply, 'OUTPUT', isError ? 'BASE64' : text);
  }
  const eventMetadata = { eventId: id, inferenceId, inferenceTime: new Date(startMs).toISOString(), customAttributes };
  yield `},"eventMetadata":${JSON.stringify(eventMetadata)},"eventVersion":"0","client":${JSON.stringify(clientOf(call, facts))}}\n`;
}

const isJson = (type: string | null): boolean => /^[^;]*[/+]json\b/i.test(type ?? '');
const isText = (type: string | null): boolean => /^text\//i.test(type ?? '');

function* sideOf(side: Side, mode: string, wanted: string): Generator<string> {
  const { bytes = Buffer.alloc(0) } = side;
  const encoding = wanted === 'BASE64' || !isUtf8(bytes) ? 'BASE64' : wanted;
  yield `{"observedContentType":${JSON.stringify(side.contentType)},"mode":"${mode}"`;
  if (side.left === undefined) {
    yield ',"data":"';
    const decoder = new StringDecoder('utf8');
    for (let at = 0; at < bytes.length; at += SLICE) {
      const slice = bytes.subarray(at, at + SLICE);
      yield encoding === 'BASE64' ? slice.toString('base64') : JSON.stringify(decoder.write(slice)).slice(1, -1);
    }
    yield `","encoding":"${encoding}"`;
  }
  yield '}';
}

function clientOf(call: Call, { calls, sampling, dropped }: LineFacts): object {
  const { request, reply, pieces, error } = call;
  const left = { request: request.left, reply: reply.left };
  return {
    version: 1,
    writer: 'node',
    calls,
    sampling,
    streamed: call.facts.streamed,
    ended: call.ended,
    status: call.status,
    originalStatus: call.originalStatus,
    error,
    attempts: call.attempts,
    firstByteMs: call.firstByteMs,
    firstContentMs: call.firstContentMs,
    endMs: call.endMs,
    requestBytes: request.left === 'unreadable' ? undefined : request.total,
    replyBytes: call.ended === 'failed' && reply.total === 0 ? undefined : reply.total,
    ...(call.facts.streamed && call.pieceCount > 0
      ? {
          pieceCount: call.pieceCount,
          pieces: Array.from({ length: pieces.length / 2 }, (_, i) => [pieces[2 * i], pieces[2 * i + 1]]),
        }
      : {}),
    left: (left.request ?? left.reply) ? left : undefined,
    dropped: dropped > 0 ? dropped : undefined,
  };
}
