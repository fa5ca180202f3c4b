/**
 * Tells an error reply from a good one. Data Capture records no HTTP status: an error is known by a reply without a
 * content type, or by a body of the shapes that servers give their errors. What a model says about errors is text in
 * the place where its text belongs, and never looked at here.
 */
import { asText, isObject, type JsonObject } from './json.ts';
import type { CaptureError, Payload } from './types.ts';

const MIN_ERROR_STATUS = 400;
const MAX_ERROR_STATUS = 599;

function statusOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  const isStatus =
    typeof number === 'number' && Number.isInteger(number) && number >= MIN_ERROR_STATUS && number <= MAX_ERROR_STATUS;
  return isStatus ? number : undefined;
}

/** Fields that an error body is made of. A body with any other field is a reply that has an error among its data. */
const ERROR_FIELDS = new Set(
  `error errors error_type error_code errorcode error_message errormessage errortype code message msg detail details type
  title status statuscode status_code httpstatuscode object param request_id requestid id timestamp path trace traceback
  stack stacktrace exception reason instance success ok logstreamarn originalmessage originalstatuscode __type hint
  documentation_url created model`.split(/\s+/),
);

const isErrorOnly = (body: JsonObject): boolean =>
  Object.keys(body).every((name) => ERROR_FIELDS.has(name.toLowerCase()));

/** Field of an object without regard to the case of its name. */
function field(body: JsonObject, ...names: string[]): unknown {
  for (const name of names) {
    if (Object.hasOwn(body, name)) return body[name];
  }
  const lower = new Set(names.map((name) => name.toLowerCase()));
  const found = Object.keys(body).find((name) => lower.has(name.toLowerCase()));
  return found === undefined ? undefined : body[found];
}

const MAX_MESSAGE_CHARS = 2000;

/** First text among the candidates, however deep an error object holds it. */
function messageOf(...candidates: unknown[]): string | undefined {
  for (const candidate of candidates) {
    if (typeof candidate === 'string' && candidate.trim() !== '') return candidate.trim().slice(0, MAX_MESSAGE_CHARS);
    if (isObject(candidate)) {
      const inner = messageOf(
        ...['message', 'msg', 'detail', 'reason', 'error', 'title'].map((name) => field(candidate, name)),
      );
      if (inner !== undefined) return inner;
    }
    if (Array.isArray(candidate) && candidate.length > 0) {
      const inner = candidate.map((item) => messageOf(item)).filter((text) => text !== undefined);
      if (inner.length > 0) return [...new Set(inner)].join('; ').slice(0, MAX_MESSAGE_CHARS);
    }
  }
  return undefined;
}

const build = (message: string | undefined, status: number | undefined, type: unknown): CaptureError => ({
  ...(status === undefined ? {} : { statusCode: status }),
  message: message ?? 'the reply is an error without a message',
  ...(asText(type) === undefined ? {} : { type: asText(type) as string }),
});

const STATUS_FIELDS = [
  'code',
  'status',
  'statusCode',
  'status_code',
  'httpStatusCode',
  'OriginalStatusCode',
  'error_code',
  'errorCode',
] as const;

/** Types that a server's documentation ties to one status. */
const STATUS_OF_TYPE: Record<string, number> = {
  invalid_request_error: 400,
  badrequesterror: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  notfounderror: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  internalservererror: 500,
  internalserverexception: 500,
  overloaded_error: 529,
};

function statusIn(body: JsonObject): number | undefined {
  for (const name of STATUS_FIELDS) {
    const status = statusOf(field(body, name));
    if (status !== undefined) return status;
  }
  return undefined;
}

function statusOfType(type: unknown): number | undefined {
  const name = typeof type === 'string' ? type.toLowerCase() : '';
  return Object.hasOwn(STATUS_OF_TYPE, name) ? STATUS_OF_TYPE[name] : undefined;
}

const LOOKS_LIKE_ERROR_TYPE = /(?:error|exception)$/i;

/** FastAPI's list of what was wrong with a request. */
const isValidationList = (detail: unknown): boolean =>
  Array.isArray(detail) &&
  detail.length > 0 &&
  detail.every((item) => isObject(item) && 'msg' in item && 'loc' in item);

/** @param unmarked the reply has no content type, as error replies have none. */
function errorOfObject(body: JsonObject, unmarked: boolean): CaptureError | undefined {
  const { error } = body;
  // An object named `error` is an error wherever it stands, also behind a reply that began well (a stream cut by one).
  if (isObject(error) && (messageOf(error) !== undefined || statusIn(error) !== undefined || 'type' in error)) {
    const type = field(error, 'type', 'status', 'code');
    const isName = statusOf(type) === undefined ? type : undefined;
    return build(messageOf(error, body.message), statusIn(error) ?? statusIn(body) ?? statusOfType(type), isName);
  }
  if (!isErrorOnly(body)) return undefined;

  const type = field(body, 'type', 'error_type', 'errorType', '__type', 'ErrorCode', 'error_code', 'title');
  const typeName = typeof type === 'string' && statusOf(type) === undefined ? type : undefined;
  const status = statusIn(body) ?? statusOfType(typeName);
  const message = messageOf(
    field(body, 'OriginalMessage'),
    // DJL puts the cause into `error` and a general word into `message`: both are worth having.
    [body.message, typeof error === 'string' ? error : undefined].filter((text) => typeof text === 'string').join(': '),
    field(body, 'message', 'msg', 'error_message', 'errorMessage'),
    error,
    field(body, 'errors', 'detail', 'exception', 'reason', 'title'),
  );
  const saysError =
    (typeof error === 'string' && error.trim() !== '') ||
    (Array.isArray(body.errors) && body.errors.length > 0) ||
    body.object === 'error' ||
    body.status === 'error' ||
    body.success === false ||
    (typeof typeName === 'string' && LOOKS_LIKE_ERROR_TYPE.test(typeName)) ||
    typeof field(body, 'ErrorCode', 'error_code', '__type') === 'string' ||
    isValidationList(body.detail) ||
    (typeof body.detail === 'string' && Object.keys(body).length === 1) ||
    status !== undefined;
  if (saysError && (message !== undefined || status !== undefined)) {
    return build(message, status ?? (isValidationList(body.detail) ? 422 : undefined), typeName);
  }
  return unmarked && message !== undefined ? build(message, status, typeName) : undefined;
}

/** Whole bodies that proxies and servers give, never a part of a text. */
const PLAIN_ERRORS: readonly { pattern: RegExp; status?: number }[] = [
  { pattern: /^upstream (?:connect error|request timeout)/i, status: 503 },
  { pattern: /^no healthy upstream$/i, status: 503 },
  { pattern: /^Internal Server Error\.?$/i, status: 500 },
  { pattern: /^Bad Gateway$/i, status: 502 },
  { pattern: /^Service (?:Temporarily )?Unavailable$/i, status: 503 },
  { pattern: /^Gateway Time-?out$/i, status: 504 },
  { pattern: /^Too Many Requests$/i, status: 429 },
  { pattern: /^(?:Received (?:client|server) error \(\d{3}\) from )/i },
];

/** `502 Bad Gateway`, `HTTP 503: Service Unavailable`, as a whole body or a page's title. */
const STATUS_LINE = /^(?:HTTP(?:\/[\d.]+)?\s+)?(?:Error\s+)?([45]\d\d)[ :-]+[A-Z][A-Za-z -]{2,40}!{0,2}$/;
const HTML_TITLE = /^\s*(?:<!doctype html[^>]*>\s*)?<html[\s\S]{0,2000}?<title>\s*([^<]{3,120}?)\s*<\/title>/i;

function errorOfText(text: string, unmarked: boolean): CaptureError | undefined {
  const whole = text.trim();
  if (whole === '') return undefined;
  const title = HTML_TITLE.exec(whole)?.[1];
  const line = STATUS_LINE.exec(title ?? whole);
  if (line !== null) return build(title ?? whole, Number(line[1]), undefined);
  const plain = PLAIN_ERRORS.find(({ pattern }) => pattern.test(title ?? whole));
  if (plain !== undefined) {
    return build(
      title ?? whole.slice(0, MAX_MESSAGE_CHARS),
      plain.status ?? statusOf(/\((\d{3})\)/.exec(whole)?.[1]),
      undefined,
    );
  }
  return unmarked
    ? build((title ?? whole).slice(0, MAX_MESSAGE_CHARS), statusOf(/\((\d{3})\)/.exec(whole)?.[1]), undefined)
    : undefined;
}

/** `generated_text` with a finish reason of `error`, as LMI has it. */
function errorOfGeneration(body: unknown): CaptureError | undefined {
  const first = Array.isArray(body) ? body[0] : body;
  const details = isObject(first) && isObject(first.details) ? first.details : undefined;
  if (details?.finish_reason !== 'error') return undefined;
  return build(
    messageOf(details.error, first.error, details.message) ?? 'the generation ended with the finish reason “error”',
    statusIn(first as JsonObject),
    'generation_error',
  );
}

/**
 * @param payload the reply.
 * @returns the error that the reply is, or `undefined` for a good one.
 */
export function errorReply(payload: Payload | undefined): CaptureError | undefined {
  if (payload === undefined || payload.kind === 'empty' || payload.kind === 'raw' || payload.kind === 'binary')
    return undefined;
  const unmarked = payload.contentType === null || payload.contentType.trim() === '';
  if (payload.kind === 'text') return errorOfText(payload.text ?? '', unmarked);
  if (payload.kind === 'csv') return undefined;
  const { value } = payload;
  // Google's servers wrap an error into a list.
  const body = Array.isArray(value) && value.length === 1 ? value[0] : value;
  if (isObject(body)) {
    const isProblem = payload.contentType?.includes('problem+json') ?? false;
    return errorOfObject(body, unmarked || isProblem) ?? errorOfGeneration(value);
  }
  return errorOfGeneration(value);
}
