/** Posts a capture file to Arthur, and reads its answer. docs/arthur.md lists what Arthur documents. */

import { randomUUID } from 'node:crypto';
import { basename } from 'node:path';
import * as z from 'zod';
import { loadSecret, secretOf } from '../../core/aws/secret.ts';
import { PermanentError, PipelineError, RetryableError } from '../../core/errors/errors.ts';
import { readRetryAfter } from '../../core/process/retry.ts';
import type { ForwardEnvironment } from '../../core/settings/environment.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { createHttpTransport, type HttpReply, NoReplyError, TOO_LONG } from '../../mlflow/transport.ts';

/** A file with its bytes, which a second post reads again. */
export interface ArthurFile {
  /** Its end is the name of the file. */
  key: string;
  /** Bytes. */
  size: number;
  open(): Promise<AsyncIterable<Buffer>>;
}

/** @throws PermanentError `ArthurSecretUnreadable` without the text, RetryableError `ArthurUnavailable` while Secrets Manager fails */
async function loadToken(secretArn: string): Promise<string> {
  const names = { unreadable: 'ArthurSecretUnreadable', unavailable: 'ArthurUnavailable' } as const;
  const { text } = await loadSecret(undefined, secretArn, names, 'Arthur’s token');
  const what = 'Arthur’s secret contains no token';
  return secretOf(text, 'token', { name: names.unreadable, what, where: secretArn });
}

/**
 * Returns a function that posts a file, and returns the answer with any status. The token is cached. When Arthur no
 * longer accepts it, the secret is read again, and the file is posted once more if the token has changed. Errors of
 * reading the file are thrown unchanged.
 *
 * @throws RetryableError `ArthurUnavailable` without an answer; PermanentError `ArthurAnswerUnreadable` for an answer
 *   that is too long; the errors of `load`
 */
export function connectArthur(
  { ARTHUR_HOST: host, ARTHUR_MODEL_ID: model, ARTHUR_SECRET_ARN: secret }: ForwardEnvironment,
  load = () => loadToken(secret),
) {
  const path = `api/v3/models/${encodeURIComponent(model)}/inferences/integrations/sagemaker_data_capture`;
  const url = new URL(path, host.endsWith('/') ? host : `${host}/`);
  let kept: string | undefined;
  return async (file: ArthurFile, timeoutMs: number): Promise<HttpReply> => {
    const used = kept ?? (await load());
    const reply = await post(url, used, file, timeoutMs);
    kept = isUnauthorized(reply.status) ? await load() : used;
    return kept === used ? reply : post(url, kept, file, timeoutMs);
  };
}

const isUnauthorized = (status: number): boolean => status === 401 || status === 403;

// ------------------------------------------------------------------------------------------------------------ post

/** An answer lists every failure, of about 100 bytes each: this is the file of a hundred thousand captures that all fail. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

async function post(url: URL, token: string, file: ArthurFile, timeoutMs: number): Promise<HttpReply> {
  const { contentType, body } = multipartOf(file, await file.open());
  const headers = { authorization: token, accept: 'application/json', 'content-type': contentType };
  const request = { method: 'POST', url, headers, body, timeoutMs, maxReplyBytes: MAX_ANSWER_BYTES };
  // A connection that is kept breaks while the function is frozen: then it is unknown whether the upload arrived.
  const transport = createHttpTransport();
  try {
    const reply = await transport.send(request);
    // A proxy quotes the token.
    return { ...reply, body: Buffer.from(reply.body.toString('utf8').replaceAll(token, '…')) };
  } catch (error) {
    if (!(error instanceof NoReplyError)) throw error;
    if (error.cause instanceof PipelineError) throw error.cause;
    if (error.code === TOO_LONG) throw unreadable(`more than ${MAX_ANSWER_BYTES} bytes`);
    const mayHave = error.sent ? ' after the upload, which Arthur may have' : '';
    const message = `There is no answer from Arthur${error.whileSending ? ' during the upload' : mayHave}`;
    throw new RetryableError('ArthurUnavailable', message, { got: error.code, where: url.href }, error);
  } finally {
    transport.close();
  }
}

/** Characters that end a quoted name, as browsers write them: https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data */
const ESCAPED: Record<string, string> = { '"': '%22', '\r': '%0D', '\n': '%0A' };

/** The form with a file. @param content of exactly `size` bytes */
function multipartOf({ key, size }: ArthurFile, content: AsyncIterable<Buffer>) {
  // Random, so that no capture can contain it.
  const boundary = `inference-monitor-${randomUUID()}`;
  const name = basename(key).replace(/["\r\n]/g, (char) => ESCAPED[char] ?? '');
  const disposition = `Content-Disposition: form-data; name="inference_data"; filename="${name}"`;
  const head = Buffer.from(`--${boundary}\r\n${disposition}\r\nContent-Type: application/octet-stream\r\n\r\n`);
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  async function* pieces(): AsyncGenerator<Buffer> {
    yield head;
    yield* content;
    yield tail;
  }
  const body = { length: head.length + size + tail.length, pieces: pieces() };
  return { contentType: `multipart/form-data; boundary=${boundary}`, body };
}

// ---------------------------------------------------------------------------------------------------------- answer

const number = z.number().int().nonnegative();
// Whatever else the answer contains, Arthur has the file.
const answerSchema = z.object({ counts: z.object({ total: number, success: number, failure: number }) });

/**
 * Reads how many inferences of a file Arthur counts, took and did not take. No error quotes the answer: it may quote captures.
 *
 * @returns RetryableError `ArthurUnavailable` for 408 and 5xx, `ArthurThrottled` for 429; PermanentError `ArthurUnauthorized` (401,
 *   403), `ArthurTooLarge` (413), `ArthurRefused` (any other status), `ArthurAnswerUnreadable`
 */
export function countsIn({ status, headers, body }: HttpReply) {
  const facts = { got: `HTTP ${status}` };
  const again = (name: 'ArthurThrottled' | 'ArthurUnavailable', message: string) =>
    new RetryableError(name, message, facts, undefined, readRetryAfter(headers['retry-after']));
  if (status === 429) return again('ArthurThrottled', 'Arthur has no room for more');
  if (status === 408 || status >= 500) return again('ArthurUnavailable', 'Arthur failed');
  if (isUnauthorized(status)) {
    const expected = 'a token in the secret of ARTHUR_SECRET_ARN that may send inferences of ARTHUR_MODEL_ID';
    return new PermanentError('ArthurUnauthorized', 'Arthur did not accept the token', { ...facts, expected });
  }
  if (status === 413) return new PermanentError('ArthurTooLarge', 'The file is too large for Arthur', facts);
  if (status < 200 || status >= 300) return new PermanentError('ArthurRefused', 'Arthur refused the file', facts);
  return answerSchema.safeParse(jsonIn(body)).data?.counts ?? unreadable(facts.got);
}

function unreadable(got: string): PermanentError {
  const expected = 'JSON with counts of total, success and failure; a page of a proxy or of another server is none';
  const message = 'The answer does not tell whether Arthur took the file';
  return new PermanentError('ArthurAnswerUnreadable', message, { got, expected });
}
