/**
 * What logs, receipts and causes show of another program's failure: names, codes, statuses and ids. Its words can quote captured content:
 * MLflow lists the parameters of a statement, a judge repeats the prompt, a JSON parser quotes its input. They stay in a `Words` among
 * the causes of an error, and are kept only where content is.
 */

import { types } from 'node:util';

/** The words of another program, as the cause of a named error. Logs have its place in the code alone. */
export class Words extends Error {
  override readonly name = 'Words';

  constructor(text: string) {
    super(text.slice(0, MAX_WORDS_CHARS));
  }
}

const MAX_WORDS_CHARS = 10_000;
const MAX_NAME_CHARS = 64;

interface Failure {
  /** A class or a code: of an exception, an error reply or a network failure. */
  code?: unknown;
  status?: number | undefined;
  requestId?: unknown;
  /** Searched for the action and the resource of a denied call. */
  text?: string | undefined;
}

/** Names of programs have no digits, no spaces and no punctuation, so that no number or sentence can pass for one. */
const NAME = /^[A-Za-z]+(?:[._][A-Za-z]+)*$/;

/** A UUID, an id of S3 or DynamoDB, an id of OpenAI. */
const REQUEST_ID = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9A-Z]{16}|[0-9A-Z]{52}|req_[0-9a-f]{32})$/i;

/** IAM's reason, with the service control policy that denies a call, which no policy of the account can allow. */
const DENIED =
  /not authorized to perform: ([a-z][a-z-]{1,30}:[A-Z][A-Za-z]{2,60})(?: on resource: "?(arn:aws[a-z-]{0,10}:[\w:/.*-]{1,300}))?/;
const BY_ORGANIZATION = /explicit deny in a (service control policy(?:: arn:aws[a-z-]{0,10}:[\w:/.*-]{1,300})?)/;

/** Returns the name of a class or a code; `undefined` for anything else, since clients copy it from a reply. */
export const nameOf = (name: unknown): string | undefined =>
  typeof name === 'string' && name.length <= MAX_NAME_CHARS && NAME.test(name) ? name : undefined;

/** Describes a failure of another program without its words: `HTTP 403, AccessDeniedException, request …, denied s3:GetObject on arn:…`. */
export function shownOf({ code, status, requestId, text = '' }: Failure): string {
  const [, action, resource] = DENIED.exec(text) ?? [];
  const policy = BY_ORGANIZATION.exec(text)?.[1];
  return [
    status === undefined ? undefined : `HTTP ${status}`,
    nameOf(code),
    typeof requestId === 'string' && REQUEST_ID.test(requestId) ? `request ${requestId}` : undefined,
    action && `denied ${action}${resource ? ` on ${resource}` : ''}${policy ? ` by a ${policy}` : ''}`,
  ]
    .filter(Boolean)
    .join(', ');
}

/** Also for an error of another realm, such as that of `fetch` in a sandbox. */
export const isError = (error: unknown): error is Error => types.isNativeError(error) || error instanceof Error;

interface ForeignError extends Error {
  code?: unknown;
  $metadata?: { httpStatusCode?: number; requestId?: string };
  $response?: { statusCode?: number };
}

/** Describes an exception of another program: of Node, of a library, or of the AWS SDK. */
export function shownOfError(error: Error): { name: string; message: string } {
  const { name, message, code, cause, $metadata, $response }: ForeignError = error;
  const shown = shownOf({
    code: code ?? (cause as ForeignError | undefined)?.code,
    status: $metadata?.httpStatusCode ?? $response?.statusCode,
    requestId: $metadata?.requestId,
    text: message,
  });
  return { name: nameOf(name) ?? 'Error', message: shown };
}
