/** Writes a call as a line of SageMaker's Data Capture, with the object `client` beside it: docs/capture-client.md. */
import { isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import type { Call, Side } from './call.ts';
import type { Settings } from './options.ts';

/** Bytes that are encoded at once. A multiple of 3, so that pieces of base64 can be joined. */
const SLICE = 48 * 1024;

/** Yields the line in pieces of bounded size and work, so that other work can run between two of them. @param dropped captures since the last line */
export function* lineOf(call: Call, { calls, sampling }: Settings, dropped: number): Generator<string> {
  const { request, reply, pieces, client } = call;
  const hasFailed = client.ended === 'failed';
  const hasReply = !hasFailed || reply.total > 0;
  yield '{"captureData":{"endpointInput":';
  yield* sideOf(request, 'INPUT', encodingOf(request));
  if (hasReply) {
    yield ',"endpointOutput":';
    yield* sideOf(reply, 'OUTPUT', hasFailed ? 'BASE64' : encodingOf(reply, client.streamed));
  }
  yield `},"eventMetadata":${call.about},"eventVersion":"0","client":`;
  const fields = {
    ...{ version: 1, writer: 'node', calls, sampling, ...client },
    requestBytes: request.left === 'unreadable' ? undefined : request.total,
    replyBytes: hasReply ? reply.total : undefined,
    pieces: pieces.length > 0 ? pieces : undefined,
    left: request.left || reply.left ? { request: request.left, reply: reply.left } : undefined,
    dropped: dropped || undefined,
  };
  yield `${JSON.stringify(fields)}}\n`;
}

/** The encoding that SageMaker gives to a content type by default; a stream is text, which AIPerf's loader passes over. */
function encodingOf({ contentType }: Side, streamed = false): string {
  const type = contentType ?? '';
  if (streamed || /^text\/csv\b/i.test(type)) return 'CSV';
  return /^[^;]*[/+]json\b/i.test(type) ? 'JSON' : 'BASE64';
}

function* sideOf({ kept, left, contentType }: Side, mode: string, wanted: string): Generator<string> {
  yield `{"observedContentType":${JSON.stringify(contentType)},"mode":"${mode}"`;
  if (left === undefined) {
    const bytes = Buffer.concat(kept);
    const encoding = isUtf8(bytes) ? wanted : 'BASE64';
    const decoder = new StringDecoder(encoding === 'BASE64' ? 'base64' : 'utf8');
    yield ',"data":"';
    for (let at = 0; at < bytes.length; at += SLICE) {
      yield JSON.stringify(decoder.write(bytes.subarray(at, at + SLICE))).slice(1, -1);
    }
    yield `${decoder.end()}","encoding":"${encoding}"`;
  }
  yield '}';
}
