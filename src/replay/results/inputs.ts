/** Writes `inputs.json`: the requests as sent, in AIPerf's layout. It has another name until it is complete. */
import { isUtf8 } from 'node:buffer';
import { rename, rm } from 'node:fs/promises';
import { NOT_MASKED } from '../../captures/redact/encoded.ts';
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

/** A payload that cannot be masked is left out, so that its request keeps its record. */
function keptPayload(request: PreparedRequest): string {
  try {
    return payloadJson(request);
  } catch {
    return JSON.stringify({ text: NOT_MASKED });
  }
}

export function inputsFile(path: string) {
  const part = `${path}.part`;
  let inputs = 0;
  const discard = async (): Promise<void> => {
    await file.close().catch(() => {});
    await rm(part, { force: true });
  };
  // A full disk is left to the files with measurements: the captures contain the same requests.
  const file = new LineWriter(part, () => void discard());
  file.write('{"data":[');
  return {
    discard,
    /** Reads a request that was sent. The returned function writes it. */
    read: (request: PreparedRequest): (() => void) => {
      const payload = file.error || inputs >= MAX_INPUTS ? undefined : keptPayload(request);
      return () => {
        const separator = inputs === 0 ? '' : ',';
        inputs += 1;
        if (payload === undefined) return;
        file.write(`${separator}{"session_id":${JSON.stringify(request.conversationId)},"payloads":[${payload}]}`);
      };
    },
    /** Completes the file. @returns why it was left out; `undefined` if it was written */
    finish: async (): Promise<string | undefined> => {
      file.write(']}');
      try {
        await file.close();
        if (inputs > MAX_INPUTS) return 'more requests than inputs.json can contain';
        await rename(part, path);
        return undefined;
      } catch (error) {
        return (error as Error).message;
      } finally {
        await rm(part, { force: true });
      }
    },
  };
}
