/** Writes calls as lines of SageMaker's Data Capture, with an object `client` each: docs/capture-client.md. The lines become one object. */
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { StringDecoder } from 'node:string_decoder';
import type { Call, Side } from './call.ts';
import type { Settings } from './options.ts';

/** Returns the number of lines of a batch. */
export const linesIn = (body: Buffer): number => body.toString('latin1').split('\n').length - 1;

/** Bytes that are encoded at once, or between two turns of the application. A multiple of 3, so that pieces of base64 can be joined. */
const SLICE = 24 * 1024;

/**
 * Returns a key, its lines, and the calls in them: as many calls as fit, all with the folder of the first call. Yields
 * between parts of bounded work.
 */
export function* encode(calls: [Call, ...Call[]], settings: Settings): Generator<undefined, [string, Buffer, Call[]]> {
  const folder = folderOf(settings, calls[0]);
  const parts: Buffer[] = [];
  const taken: Call[] = [];
  let [bytes, nextTurn] = [0, SLICE];
  for (const call of calls) {
    if (bytes >= settings.batchBytes) break;
    if (folderOf(settings, call) !== folder) continue;
    for (const text of lineOf(call, settings)) {
      const part = Buffer.from(text);
      parts.push(part);
      bytes += part.length;
      if (bytes < nextTurn) continue;
      nextTurn = bytes + SLICE;
      yield undefined;
    }
    taken.push(call);
  }
  const time = new Date(calls[0].startMs).toISOString();
  const key = `${folder}/${time.slice(14, 16)}-${time.slice(17, 19)}-${time.slice(20, 23)}-${randomUUID()}.jsonl`;
  return [key, Buffer.concat(parts), taken];
}

/** SageMaker's layout has the hour below it. */
const folderOf = (settings: Settings, call: Call): string =>
  `${placeOf(settings, call)}/${new Date(call.startMs).toISOString().slice(0, 13).replace(/[-T]/g, '/')}`;

/** Endpoint and variant, below the prefix: a key has 5 names more. */
export function placeOf({ prefix }: Settings, { endpoint, variant }: Call): string {
  // SageMaker's names have no other characters. A key that S3 refuses would be tried for good.
  const names = [endpoint, variant].map((name) => name.replace(/[^\w-]/g, '_').slice(0, 63));
  return [prefix, ...names].filter((part) => part !== '').join('/');
}

/** Yields the line in pieces of bounded size and work. */
function* lineOf(call: Call, { calls, sampling }: Settings): Generator<string> {
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
    replyBytes: hasReply && reply.left !== 'unread' ? reply.total : undefined,
    pieces: pieces.length > 0 ? pieces : undefined,
    left: request.left || reply.left ? { request: request.left, reply: reply.left } : undefined,
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
