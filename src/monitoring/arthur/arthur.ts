/** Posts a capture file to Arthur, and reads its answer. docs/arthur.md says what of it Arthur documents. */

import { randomUUID } from 'node:crypto';
import { basename } from 'node:path';
import * as z from 'zod';
import { PermanentError, PipelineError, RetryableError } from '../../core/errors/errors.ts';
import { readRetryAfter } from '../../core/process/retry.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { type HttpReply, type HttpTransport, NoReplyError, TOO_LONG } from '../../mlflow/transport.ts';

interface ArthurModel {
  /** Such as `https://app.arthur.ai`. */
  host: string;
  model: string;
}

/** Inferences of a file, by Arthur's count. */
type ArthurCounts = z.infer<typeof countsSchema>;

/** An answer lists every failure, of about 100 bytes each: this is the file of a hundred thousand captures that all fail. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

const number = z.number().int().nonnegative();
const countsSchema = z.object({ total: number, success: number, failure: number });
// Whatever else is in it, Arthur has the file.
const answerSchema = z.object({ counts: countsSchema });

const addressOf = ({ host, model }: ArthurModel): URL =>
  new URL(
    `api/v3/models/${encodeURIComponent(model)}/inferences/integrations/sagemaker_data_capture`,
    host.endsWith('/') ? host : `${host}/`,
  );

/**
 * Posts a file once.
 *
 * @param content of exactly `size` bytes. Its own named errors are thrown
 * @returns the answer, whatever its status
 * @throws RetryableError `ArthurUnavailable` without an answer; PermanentError `ArthurAnswerUnreadable` for one that is too long
 */
export async function postToArthur(
  transport: HttpTransport,
  arthur: ArthurModel,
  token: string,
  file: { key: string; size: number; content: AsyncIterable<Buffer> },
  timeoutMs: number,
): Promise<HttpReply> {
  const url = addressOf(arthur);
  const { contentType, body } = multipartFile(file);
  const headers = { authorization: token, accept: 'application/json', 'content-type': contentType };
  const request = { method: 'POST', url, headers, body, timeoutMs, maxReplyBytes: MAX_ANSWER_BYTES };
  const reply = await transport.send(request).catch((error: unknown) => {
    if (!(error instanceof NoReplyError)) throw error;
    if (error.cause instanceof PipelineError) throw error.cause;
    if (error.code === TOO_LONG) throw unreadable(`more than ${MAX_ANSWER_BYTES} bytes`);
    const when = error.whileSending
      ? ' during the upload'
      : error.sent
        ? ' after the upload, which Arthur may have'
        : '';
    const facts = { got: error.code, where: url.href };
    throw new RetryableError('ArthurUnavailable', `There is no answer from Arthur${when}`, facts, error);
  });
  if (!reply.body.includes(token)) return reply;
  // A proxy quotes it.
  return { ...reply, body: Buffer.from(reply.body.toString('utf8').replaceAll(token, '…')) };
}

/**
 * Reads the counts of an answer. No error quotes it: Arthur may quote captures.
 *
 * @throws RetryableError `ArthurUnavailable` for 408 and 5xx, `ArthurThrottled` for 429; PermanentError
 *   `ArthurUnauthorized` (401, 403), `ArthurTooLarge` (413), `ArthurRefused` (any other status), `ArthurAnswerUnreadable`
 */
export function countsIn({ status, headers, body }: HttpReply): ArthurCounts {
  const facts = { got: `HTTP ${status}` };
  const wait = readRetryAfter(headers['retry-after']);
  if (status === 429)
    throw new RetryableError('ArthurThrottled', 'Arthur has no room for more', facts, undefined, wait);
  if (status === 408 || status >= 500) {
    throw new RetryableError('ArthurUnavailable', 'Arthur failed', facts, undefined, wait);
  }
  if (isUnauthorized(status)) {
    const expected = 'a token in the secret of ARTHUR_SECRET_ARN that may send inferences of ARTHUR_MODEL_ID';
    throw new PermanentError('ArthurUnauthorized', 'Arthur did not accept the token', { ...facts, expected });
  }
  if (status === 413) throw new PermanentError('ArthurTooLarge', 'The file is too large for Arthur', facts);
  if (status < 200 || status >= 300) throw new PermanentError('ArthurRefused', 'Arthur refused the file', facts);
  const answer = answerSchema.safeParse(jsonIn(body)).data;
  if (answer !== undefined) return answer.counts;
  throw unreadable(facts.got);
}

function unreadable(got: string): PermanentError {
  const expected = 'JSON with counts of total, success and failure; a page of a proxy or of another server is none';
  const message = 'The answer does not tell whether Arthur took the file';
  return new PermanentError('ArthurAnswerUnreadable', message, { got, expected });
}

/** Whether a status says that the token is not accepted. */
export const isUnauthorized = (status: number): boolean => status === 401 || status === 403;

// ------------------------------------------------------------------------------------------------------------ body

/** Characters that end a quoted name, as browsers write them: https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data */
const ESCAPED: Record<string, string> = { '"': '%22', '\r': '%0D', '\n': '%0A' };

/**
 * @param key the end of the object's key is the name of the file
 * @param content of exactly `size` bytes
 */
function multipartFile({ key, size, content }: { key: string; size: number; content: AsyncIterable<Buffer> }) {
  // Random, so that no capture can contain it.
  const boundary = `inference-monitor-${randomUUID()}`;
  const name = basename(key).replace(/["\r\n]/g, (char) => ESCAPED[char] ?? '');
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="inference_data"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`,
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  async function* pieces(): AsyncGenerator<Buffer> {
    yield head;
    yield* content;
    yield tail;
  }
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: { length: head.length + size + tail.length, pieces: pieces() },
  };
}
