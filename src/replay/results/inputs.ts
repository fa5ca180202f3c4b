/** Writes `inputs.json`: the requests as sent, in AIPerf's layout. */
import { isUtf8 } from 'node:buffer';
import { rm } from 'node:fs/promises';
import { jsonIn } from '../../core/values/json-in.ts';
import { sentBody } from '../measure/measure.ts';
import type { PreparedRequest } from '../request/preparer.ts';
import { LineWriter } from './line-writer.ts';

/** A larger file would have gigabytes, more than its readers can load. The captures contain the same requests. */
const MAX_INPUTS = 1_000_000;

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

export function inputsFile(path: string) {
  let inputs = 0;
  const discard = async (): Promise<void> => {
    await file.close().catch(() => {});
    await rm(path, { force: true });
  };
  // A full disk is left to the files with measurements: the captures contain the same requests.
  const file = new LineWriter(path, () => void discard());
  file.write('{"data":[');
  return {
    discard,
    /** Reads a request that was sent. The returned function writes it. */
    read: (request: PreparedRequest): (() => void) => {
      if (inputs >= MAX_INPUTS) return () => inputs++;
      const session = `{"session_id":${JSON.stringify(request.conversationId)},"payloads":[${payloadJson(request)}]}`;
      return () => file.write(`${inputs++ === 0 ? '' : ','}${session}`);
    },
    /** Completes the file. @returns why it was left out; `undefined` if it was written */
    finish: async (): Promise<string | undefined> => {
      file.write(']}');
      await file.close().catch(() => {});
      const why = inputs > MAX_INPUTS ? 'more requests than inputs.json can contain' : file.error?.message;
      if (why !== undefined) await rm(path, { force: true });
      return why;
    },
  };
}
