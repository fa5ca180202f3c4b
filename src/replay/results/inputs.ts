/** Writes `inputs.json`: the requests as sent, by conversation and turn, in AIPerf's layout. */
import { isUtf8 } from 'node:buffer';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { jsonIn } from '../../core/values/json-in.ts';
import { sentBody } from '../measure/measure.ts';
import type { PreparedRequest } from '../request/preparer.ts';
import { scanFile } from '../source/lines.ts';
import { localReader } from '../source/range-reader.ts';
import { SortedIndex } from '../source/sorted-index.ts';
import { LineWriter } from './line-writer.ts';

/** A larger file would have gigabytes, more than its readers can load. The captures contain the same requests. */
const MAX_INPUTS = 1_000_000;
const OUTPUT_BUFFER = 1024 * 1024;

/** Returns the body as one line of JSON. A body that is not a JSON object is wrapped, since AIPerf accepts only objects. */
function payloadJson(request: PreparedRequest): string {
  const body = request.wire.subarray(request.bodyAt);
  const text = body.toString('utf8');
  // Line breaks in JSON occur only between tokens, so they can be replaced.
  if (request.isJson && request.keep) return JSON.stringify(request.keep.texts(jsonIn(text)));
  if (request.isJson) return text.replace(/[\r\n]+/g, ' ');
  const { keep, contentType } = request;
  if (keep)
    return JSON.stringify({ content_type: keep.id(contentType), text: keep.body('endpointInput', sentBody(request)) });
  const wrapped = isUtf8(body) ? { text } : { base64: body.toString('base64') };
  return JSON.stringify({ content_type: contentType, ...wrapped });
}

/** Spools the payloads when they are prepared, and groups the turns of each conversation at the end. */
export function inputsFile(path: string) {
  let lines = 0;
  /** Deletes the spool if `finish` will not be called. */
  const discard = async (): Promise<void> => {
    await spool.close().catch(() => {});
    await rm(spool.path, { force: true });
  };
  // A full disk is left to the files with measurements.
  const spool = new LineWriter(`${path}.spool`, () => void discard());
  return {
    discard,
    add: (request: PreparedRequest): void => {
      if (spool.error || lines >= MAX_INPUTS) return;
      const { session, conversationId } = request.turn;
      lines++;
      spool.write(`${session}\t${JSON.stringify(conversationId)}\t${payloadJson(request)}`);
    },
    /**
     * Writes the file. The sent requests are the first of the added requests.
     *
     * @returns why the file was left out; `undefined` if it was written
     */
    finish: async (sent: number): Promise<string | undefined> => {
      try {
        await spool.close();
        if (sent > MAX_INPUTS) return 'more requests than inputs.json can contain';
        await pipeline(contentOf(spool.path, sent), createWriteStream(path, { highWaterMark: OUTPUT_BUFFER }));
        return undefined;
      } catch (error) {
        // The captures contain the same requests. A part of the file would be invalid JSON and take space from other
        // files.
        await rm(path, { force: true });
        return (error as Error).message;
      } finally {
        await rm(spool.path, { force: true });
      }
    },
  };
}

async function* contentOf(path: string, sent: number): AsyncGenerator<string> {
  const index = new SortedIndex();
  // A line has no limit here, and Node's readline would read the whole file ahead of a slower disk.
  for await (const { bytes, line, start, length } of scanFile(path, Number.POSITIVE_INFINITY)) {
    if (index.total === sent) break;
    // The turns of a conversation are not adjacent in the spool.
    const session = Number.parseInt(bytes?.toString('latin1', 0, 20) ?? '', 10);
    index.add({ timeMs: session, file: 0, line, start, length });
  }
  const reader = localReader([{ path, name: path, size: 0 }]);
  let last = '';
  yield '{"data":[';
  for (const batch of index.batches()) {
    reader.expect(batch);
    for (const entry of batch) {
      const [session, id, payload] = inputOf(await reader.read(entry));
      const opening = `${last === '' ? '' : ']},'}{"session_id":${id},"payloads":[`;
      yield (session === last ? ',' : opening) + payload;
      last = session;
    }
  }
  yield last === '' ? ']}\n' : ']}]}\n';
}

/** Splits a line at its first two tabs. The last part, the payload, may contain tabs between its JSON tokens. */
function inputOf(bytes: Buffer): [string, string, payload: string] {
  const line = bytes.toString('utf8');
  const first = line.indexOf('\t');
  const second = line.indexOf('\t', first + 1);
  return [line.slice(0, first), line.slice(first + 1, second), line.slice(second + 1)];
}
