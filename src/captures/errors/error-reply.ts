/**
 * Distinguishes error replies from successful replies. Data Capture records no HTTP status. An error is recognized by a
 * missing content type, or by a body in one of the forms that servers use for errors. Text that a model generates about
 * errors is in the fields of a model's text, which this module never reads.
 */

import { STATUS_CODES } from 'node:http';
import { firstOf } from '../first-of.ts';
import { asText, field, isObject, type JsonObject } from '../json.ts';
import type { CaptureError, Payload } from '../types.ts';
import { readError, readGenericReply, readWireReply } from '../wire/registry.ts';
import { fieldsOf, objectsIn } from '../wire/wire-format.ts';
import names from './error-names.json' with { type: 'json' };
import sentences from './plain-errors.json' with { type: 'json' };

// -------------------------------------------------------------------------------------------------------------- status
// The HTTP status, from the body of an error reply.

const MIN_ERROR_STATUS = 400;
const MAX_ERROR_STATUS = 599;

/** Returns the status of an error from a number, or from a text of three digits. */
function statusOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  const isStatus =
    typeof number === 'number' && Number.isInteger(number) && number >= MIN_ERROR_STATUS && number <= MAX_ERROR_STATUS;
  return isStatus ? number : undefined;
}

/** Returns the status under one of the usual names. */
const statusIn = (body: JsonObject): number | undefined =>
  firstOf(names.statusFields, (name) => statusOf(field(body, name)));

/** Error types with one documented status: OpenAI, Anthropic, vLLM, TorchServe, TGI. */
const STATUS_OF_TYPE: Record<string, number> = names.statusOfType;

/** HTTP's own phrases as whole messages: `Not Found`, `BAD_REQUEST`. */
const STATUS_OF_PHRASE = new Map(
  Object.entries(STATUS_CODES).flatMap(([code, phrase]) =>
    Number(code) >= MIN_ERROR_STATUS && phrase !== undefined ? [[phrase.toLowerCase(), Number(code)] as const] : [],
  ),
);

function statusOfPhrase(text: unknown): number | undefined {
  if (typeof text !== 'string') return undefined;
  const plain = text.trim().replace(/[.!]$/, '').replaceAll('_', ' ').toLowerCase();
  return STATUS_OF_PHRASE.get(plain.replace('temporarily ', '').replace('time-out', 'timeout'));
}

function statusOfType(type: unknown): number | undefined {
  const name = typeof type === 'string' ? type.toLowerCase() : '';
  return Object.hasOwn(STATUS_OF_TYPE, name) ? STATUS_OF_TYPE[name] : statusOfPhrase(type);
}

// ---------------------------------------------------------------------------------------------------------------- body

/** Fields of an error body. A body with any other field is a reply with an error among its data. */
const ERROR_FIELDS = new Set(names.errorFields);

/** Fields of a reply that an error cut short, such as a stream. */
const FRAME_FIELDS = new Set(names.frameFields);

/** Fields without a value, such as GraphQL's `data`, contain no reply. */
const isErrorOnly = (body: JsonObject): boolean =>
  Object.entries(body).every(([name, value]) => value === null || ERROR_FIELDS.has(name.toLowerCase()));

const MAX_MESSAGE_CHARS = 2000;

/** Returns the first text among the candidates, at any depth of an error object. */
function messageOf(...candidates: unknown[]): string | undefined {
  for (const candidate of candidates) {
    if (typeof candidate === 'string' && candidate.trim() !== '') return candidate.trim().slice(0, MAX_MESSAGE_CHARS);
    if (isObject(candidate)) {
      const inner = messageOf(...names.messageFields.map((name) => field(candidate, name)));
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
  statusCode: status,
  message: message ?? 'the reply is an error without a message',
  type: asText(type),
});

const LOOKS_LIKE_ERROR_TYPE = /(?:error|exception)$/i;

/** Whether this is FastAPI's list of faults in a request. */
const isValidationList = (detail: unknown): boolean =>
  Array.isArray(detail) &&
  detail.length > 0 &&
  detail.every((item) => isObject(item) && 'msg' in item && 'loc' in item);

const isFramed = (body: JsonObject): boolean =>
  Object.keys(body).every((name) => ERROR_FIELDS.has(name.toLowerCase()) || FRAME_FIELDS.has(name.toLowerCase()));

const isErrorObject = (error: JsonObject): boolean =>
  messageOf(error) !== undefined || statusIn(error) !== undefined || 'type' in error;

/**
 * Whether the value of an error field describes an error: an object that contains only an error, or a list of texts and
 * objects. Numbers are metrics.
 */
const isErrorValue = (error: unknown): boolean =>
  (isObject(error) && Object.keys(error).length > 0 && isErrorOnly(error)) ||
  (Array.isArray(error) && messageOf(error) !== undefined);

/**
 * Words of errors. They are required if the only other evidence is a `code` from 400 to 599 or the name `detail`,
 * because a model's own reply may have these too: `{"code": 404, "message": "class: shoes"}`.
 */
const SOUNDS_LIKE_ERROR =
  /\b(?:errors?|\w{0,40}(?:Error|Exception)|exceptions?|fail(?:ed|ure|s)?|invalid|missing|required|denied|forbidden|unauthorized|unsupported|unavailable|unable|cannot|can't|could not|couldn't|not (?:found|allowed|loaded|ready|supported|permitted|available|exist|implemented|valid)|no such|unexpected|exceed(?:s|ed)?|too (?:large|long|many|big|short)|longer than|timed? ?out|out of (?:memory|range)|overloaded|throttl\w{1,10}|rate limit|slow down|expired|malformed)\b/i;

const soundsLikeError = (message: unknown): boolean => typeof message === 'string' && SOUNDS_LIKE_ERROR.test(message);

/**
 * @param unmarked whether the reply has no content type, like error replies.
 * @param streamed whether `error` was a separate event, whatever the other events contain.
 */
function errorOfObject(body: JsonObject, unmarked: boolean, streamed: boolean): CaptureError | undefined {
  const error = body.error ?? body.fault;
  // An error object next to the usual fields of a reply, also after a reply that began without an error.
  if (isObject(error) && (streamed || isFramed(body)) && isErrorObject(error)) {
    const type = field(error, 'type', 'status', 'code');
    const message = messageOf(error, body.message);
    const status = statusIn(error) ?? statusIn(body) ?? statusOfType(type) ?? statusOfPhrase(message);
    return build(message, status, statusOf(type) === undefined ? type : undefined);
  }
  if (!isErrorOnly(body)) return undefined;

  const type = field(body, 'type', 'error_type', 'errorType', '__type', 'ErrorCode', 'error_code', 'title');
  const typeName = typeof type === 'string' && statusOf(type) === undefined ? type : undefined;
  const message = messageOf(
    // sagemaker-containers puts the exception's name into `error`.
    field(body, 'OriginalMessage', 'error-message'),
    // DJL puts the cause into `error` and a generic word into `message`. Keep both.
    [body.message, error].filter((text) => typeof text === 'string').join(': '),
    field(body, 'message', 'msg', 'error_message', 'errorMessage'),
    error,
    field(body, 'errors', 'detail', 'exception', 'reason', 'title', 'faultstring', 'body', 'traceback'),
  );
  const spoken = messageOf(field(body, 'message', 'msg', 'error'));
  const ownStatus = statusIn(body);
  const status = ownStatus ?? statusOfType(typeName) ?? statusOfPhrase(message);
  const saysError =
    error === true ||
    (typeof error === 'string' && error.trim() !== '') ||
    isErrorValue(error) ||
    (Array.isArray(body.errors) && body.errors.length > 0) ||
    TRACES.some((name) => body[name] != null) ||
    body.object === 'error' ||
    body.status === 'error' ||
    body.success === false ||
    (typeof typeName === 'string' && LOOKS_LIKE_ERROR_TYPE.test(typeName)) ||
    typeof field(body, 'ErrorCode', 'error_code', '__type') === 'string' ||
    isValidationList(body.detail) ||
    (Object.keys(body).length === 1 && (soundsLikeError(body.detail) || statusOfPhrase(body.detail) !== undefined)) ||
    // A bare `code` may also be a model's answer. With an error's words, or under the name of a status, it is an error.
    (ownStatus !== undefined &&
      (isObject(error) ||
        soundsLikeError(spoken) ||
        statusOf(field(body, 'status', 'statusCode', 'status_code')) !== undefined)) ||
    statusOfPhrase(spoken) !== undefined;
  if (saysError && (message !== undefined || status !== undefined || isErrorValue(error))) {
    return build(message, status ?? (isValidationList(body.detail) ? 422 : undefined), typeName);
  }
  return unmarked && message !== undefined ? build(message, status, typeName) : undefined;
}

/** Fields of an exception that no reply has. */
const TRACES = ['exception', 'traceback', 'stacktrace', 'stackTrace', 'stack-trace', 'faultstring'];

/**
 * Whole bodies that proxies and SageMaker's containers send, never a part of a text, by their status. `*` is a part that varies.
 * Sources: the packages multi-model-server, torchserve, sagemaker-inference, sagemaker-containers and
 * sagemaker-huggingface-inference-toolkit, and the public code of SageMaker's XGBoost and example containers.
 */
const PLAIN_ERRORS = Object.entries(sentences).flatMap(([status, texts]) =>
  texts.map((text) => ({ status: statusOf(status), pattern: patternOf(text) })),
);

function patternOf(sentence: string): RegExp {
  const parts = sentence.split('*').map((part) => part.replace(/[()."]/g, '\\$&').replaceAll(' ', '\\s{1,20}'));
  // The last part may have several lines, such as a stack trace.
  const rest = sentence.endsWith('*') ? `${parts.splice(-2, 2)[0]}[\\s\\S]*` : parts.pop();
  return new RegExp(`^${[...parts, rest].join('.{0,300}')}[.!]?$`, 'i');
}

/** `502 Bad Gateway`, `HTTP 503: Service Unavailable`, as a whole body or a page's title. */
const STATUS_LINE = /^(?:HTTP(?:\/[\d.]+)?\s+)?(?:Error\s+)?([45]\d\d)[ :-]+[A-Z][A-Za-z -]{2,40}!{0,2}$/;
const HTML_START = /^(?:<!doctype html|<html|<title>)/i;
/** Enough of a page to find its title. A text may have megabytes. */
const MAX_HEAD_CHARS = 4000;
const MAX_TITLE_CHARS = 120;

/** Returns the title of an HTML page. `undefined` for other texts. */
function titleOf(text: string): string | undefined {
  if (!HTML_START.test(text)) return undefined;
  const head = text.slice(0, MAX_HEAD_CHARS);
  const open = head.search(/<title>/i);
  const from = open + '<title>'.length;
  const end = head.indexOf('<', from);
  if (open === -1 || !/^<\/title>/i.test(head.slice(end, end + '</title>'.length))) return undefined;
  const title = head.slice(from, end).trim();
  return title.length >= 3 && title.length <= MAX_TITLE_CHARS ? title : undefined;
}

const TRACE_START = 'Traceback (most recent call last):\n  File ';
const EXCEPTION = /^(?:[A-Za-z_]\w*\.[\w.]+|\w*(?:Error|Exception|Exit|Interrupt|Iteration|Warning))(?::|$)/;
/** A longer text before a trace explains it, as an assistant does. */
const MAX_LINES_BEFORE_TRACE = 3;

/**
 * Returns the exception of a text that is a Python stack trace, with or without a message before it.
 * sagemaker-inference writes the exception's own message before the trace, which may have many lines.
 */
function exceptionOf(text: string): string | undefined {
  const at = `\n${text}`.indexOf(`\n${TRACE_START}`);
  const [message, trace] = [text.slice(0, at).trim(), text.slice(at)];
  if (at === -1 || message.endsWith(':')) return undefined;
  const begins = message === '' ? trace : trace.slice(0, -message.length).trimEnd();
  const isRepeated = trace.endsWith(message) && begins.endsWith(':');
  const lines = (isRepeated ? begins : trace).split('\n');
  const last = lines.at(-1) ?? '';
  if (!EXCEPTION.test(last) || !lines.at(-2)?.startsWith('  ')) return undefined;
  const isShort = isRepeated || message.split('\n').length <= MAX_LINES_BEFORE_TRACE;
  return isShort ? `${last}${isRepeated ? ` ${message}` : ''}` : undefined;
}

/** @param isTable the text may be a class, such as `500 Main Street` */
function errorOfText(text: string, unmarked: boolean, isTable = false): CaptureError | undefined {
  const whole = text.trim().replaceAll('\r\n', '\n');
  if (whole === '') return undefined;
  const title = titleOf(whole);
  const line = isTable ? null : STATUS_LINE.exec(title ?? whole);
  if (line !== null) return build(title ?? whole, Number(line[1]), undefined);
  const thrown = exceptionOf(whole);
  const plain = PLAIN_ERRORS.find(({ pattern }) => pattern.test(title ?? whole));
  if (thrown === undefined && plain === undefined && !unmarked) return undefined;
  const message = (thrown ?? title ?? whole).slice(0, MAX_MESSAGE_CHARS);
  // `Received server error (500) from`, and sagemaker-inference's `…Error: (415, 'message', 'phrase')`.
  const named = statusOf(/\((\d{3})(?:\)|, ['"])/.exec(message)?.[1]);
  return build(message, plain?.status ?? named ?? statusOfPhrase(message), thrown?.split(':', 1)[0]);
}

/** Reads an error in a form that only one vendor uses. */
function errorOfVendor(body: unknown): CaptureError | undefined {
  const told = isObject(body) ? readError(body) : undefined;
  if (told === undefined) return undefined;
  const message = messageOf(told.message);
  const status = statusIn(body as JsonObject) ?? statusOfType(told.type) ?? statusOfPhrase(message);
  return build(message, status, told.type);
}

/**
 * The finish reasons of a generation that the engine aborted or whose client disconnected. Cohere, vLLM, SGLang,
 * watsonx.
 */
const FAILED = /^(?:error|abort(?:ed)?|cancell?ed|user_cancel|timeout)$/i;

/** Reads the finish reasons of a reply. Its text may have begun. */
function errorOfGeneration(value: unknown): CaptureError | undefined {
  const reply = readWireReply(value) ?? readGenericReply(value);
  const reason = reply?.finishReasons.find((candidate) => FAILED.test(candidate));
  if (reason === undefined) return undefined;
  // OpenRouter adds an error to the choice, SGLang to the finish reason.
  const items = (Array.isArray(value) ? value : [value]).filter(isObject);
  const told = items
    .flatMap((item) => [...objectsIn(item.choices).map(({ error }) => error), fieldsOf(item.meta_info).finish_reason])
    .find((error) => isObject(error) && messageOf(error) !== undefined);
  const message = messageOf(told) ?? `the generation ended with the finish reason “${reason}”`;
  return build(message, statusIn(fieldsOf(told)), 'generation_error');
}

/** Reads a batch of which an entry has failed: `[{"generated_text": "a"}, {"error": "x"}]`. */
function errorOfEntry(value: unknown): CaptureError | undefined {
  const listed = Array.isArray(value) ? value : fieldsOf(value).predictions;
  const failed = objectsIn(listed).filter(
    (entry) => (isObject(entry.error) || typeof entry.error === 'string') && isErrorOnly(entry),
  );
  const found = failed[0] && errorOfObject(failed[0], false, false);
  if (found === undefined) return undefined;
  return { ...found, message: `${failed.length} of ${(listed as unknown[]).length} entries failed: ${found.message}` };
}

/**
 * @param payload the reply.
 * @returns the error, or `undefined` for a good reply.
 *
 * @example
 *     errorReply(payload) // { statusCode: 429, message: 'Rate limit reached', type: 'rate_limit_error' }
 */
export function errorReply(payload: Payload | undefined): CaptureError | undefined {
  if (payload === undefined || payload.kind === 'empty' || payload.kind === 'raw' || payload.kind === 'binary')
    return undefined;
  const unmarked = payload.contentType === null || payload.contentType.trim() === '';
  if (payload.kind === 'text') return errorOfText(payload.text ?? '', unmarked);
  if (payload.kind === 'csv') return errorOfText(payload.text ?? '', false, true);
  const { value } = payload;
  // Google's servers wrap an error in a list.
  const body = Array.isArray(value) && value.length === 1 ? value[0] : value;
  if (isObject(body)) {
    const isProblem = payload.contentType?.includes('problem+json') ?? false;
    const error = errorOfObject(body, unmarked || isProblem, payload.kind === 'event-stream');
    if (error !== undefined) return error;
  }
  if (typeof value === 'string') return errorOfText(value, false);
  return errorOfVendor(Array.isArray(value) ? value[0] : value) ?? errorOfGeneration(value) ?? errorOfEntry(value);
}
