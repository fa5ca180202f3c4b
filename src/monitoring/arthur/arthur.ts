/**
 * Posts a capture file to Arthur, and reads its answer. docs/arthur.md says what of it Arthur documents.
 *
 * An error names the status of the answer: Arthur may quote captures, and a proxy the token.
 */
import * as z from 'zod';
import type { ArthurCounts, Rejected } from '../../core/contract/forward.ts';
import { type ErrorFacts, PermanentError, PipelineError, RetryableError } from '../../core/errors/errors.ts';
import { shownOf } from '../../core/errors/foreign.ts';
import { readRetryAfter } from '../../core/process/retry.ts';
import { type HttpReply, type HttpTransport, NoReplyError, TOO_LONG } from '../../mlflow/transport.ts';
import { multipartFile } from './multipart.ts';

export interface ArthurModel {
  /** Such as `https://app.arthur.ai`. */
  host: string;
  model: string;
}

/** A file that Arthur has taken. */
export interface Taken {
  status: number;
  counts: ArthurCounts;
  rejected: Rejected[];
}

/** An answer lists every failure, of about 100 bytes each: this is the file of a hundred thousand captures that all fail. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MAX_REASONS = 20;

const number = z.number().int().nonnegative();
const answerSchema = z.object({
  counts: z.object({ total: number, success: number, failure: number }),
  // Arthur has the file whatever stands here.
  failures: z
    .array(
      z
        .object({
          status: z.coerce.number().catch(0),
          message: z.string().catch(''),
          event_id: z.string().optional().catch(undefined),
          inference_index_in_event: z.number().optional().catch(undefined),
        })
        .catch({ status: 0, message: '' }),
    )
    .catch([]),
});

const addressOf = ({ host, model }: ArthurModel): URL =>
  new URL(
    `api/v3/models/${encodeURIComponent(model)}/inferences/integrations/sagemaker_data_capture`,
    host.endsWith('/') ? host : `${host}/`,
  );

/**
 * Posts a file once.
 *
 * @param content of exactly `size` bytes. Its own named errors are thrown
 * @throws RetryableError `ArthurUnavailable` for 408, 5xx and no answer, `ArthurThrottled` for 429; PermanentError
 *   `ArthurUnauthorized` (401, 403), `ArthurTooLarge` (413), `ArthurRefused` (any other status), `ArthurAnswerUnreadable`
 */
export async function postToArthur(
  transport: HttpTransport,
  arthur: ArthurModel,
  token: string,
  file: { key: string; size: number; content: AsyncIterable<Buffer> },
  timeoutMs: number,
): Promise<Taken> {
  const url = addressOf(arthur);
  const { contentType, body } = multipartFile('inference_data', file);
  const headers = { authorization: token, accept: 'application/json', 'content-type': contentType };
  const request = { method: 'POST', url, headers, body, timeoutMs, maxReplyBytes: MAX_ANSWER_BYTES };
  const reply = await transport.send(request).catch((error: unknown) => {
    if (!(error instanceof NoReplyError)) throw error;
    if (error.cause instanceof PipelineError) throw error.cause;
    const got = error.timedOut ? error.message : shownOf({ code: error.code });
    if (error.code === TOO_LONG) throw unreadable({ got, where: url.href });
    const when = error.whileSending ? ' during the upload' : error.sent ? ' after the upload' : '';
    const message = `There is no answer from Arthur${when}`;
    const failure = new RetryableError('ArthurUnavailable', message, { got, where: url.href }, error);
    throw error.sent && !error.whileSending ? doubt(failure) : failure;
  });
  return readAnswer(reply, url.href);
}

const doubtful = new WeakSet<Error>();
const doubt = <E extends Error>(error: E): E => {
  doubtful.add(error);
  return error;
};

/** Whether Arthur may have taken the file of a post that failed so. */
export const mayBeTaken = (error: unknown): boolean => error instanceof Error && doubtful.has(error);

/** A gateway that lost the server, or did not wait for it. */
const OF_GATEWAYS = new Set([502, 504]);

function readAnswer({ status, headers, body }: HttpReply, where: string): Taken {
  const facts = { got: shownOf({ status }), where };
  if (status === 429) {
    const wait = readRetryAfter(headers['retry-after']);
    throw new RetryableError('ArthurThrottled', 'Arthur has no room for more', facts, undefined, wait);
  }
  if (status === 408 || status >= 500) {
    const wait = readRetryAfter(headers['retry-after']);
    const failure = new RetryableError('ArthurUnavailable', 'Arthur failed', facts, undefined, wait);
    throw OF_GATEWAYS.has(status) ? doubt(failure) : failure;
  }
  if (status === 401 || status === 403) {
    const expected = 'a token in the secret of ARTHUR_SECRET_ARN that may send inferences of ARTHUR_MODEL_ID';
    throw new PermanentError('ArthurUnauthorized', 'Arthur did not accept the token', { ...facts, expected });
  }
  if (status === 413) throw new PermanentError('ArthurTooLarge', 'The file is too large for Arthur', facts);
  if (status < 200 || status >= 300) throw new PermanentError('ArthurRefused', 'Arthur refused the file', facts);
  const answer = answerSchema.safeParse(jsonOf(body)).data;
  if (answer !== undefined) return { status, counts: answer.counts, rejected: reasonsOf(answer.failures) };
  throw unreadable(facts);
}

function unreadable(facts: ErrorFacts): PermanentError {
  const expected = `JSON of at most ${MAX_ANSWER_BYTES} bytes with counts of total, success and failure; a page of a proxy or of another server is none`;
  const message = 'The answer does not tell whether Arthur took the file';
  return doubt(new PermanentError('ArthurAnswerUnreadable', message, { ...facts, expected }));
}

function jsonOf(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

/** Adds failures up by status. */
function reasonsOf(failures: z.infer<typeof answerSchema>['failures']): Rejected[] {
  const reasons = new Map<string, Rejected>();
  for (const { status, message, event_id: id = '', inference_index_in_event: row } of failures) {
    const said = shownOf({ status, text: message });
    const known = reasons.get(said);
    if (known) known.count += 1;
    else if (reasons.size < MAX_REASONS) {
      const first = /^[\w-]{1,64}$/.test(id) ? { first: row === undefined ? id : `${id} ${row}` } : {};
      reasons.set(said, { status, message: said, count: 1, ...first });
    }
  }
  return [...reasons.values()];
}
