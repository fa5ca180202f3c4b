/** Turns the events on the wire into the metrics of a request. */

import { isUtf8 } from 'node:buffer';
import { StreamReader } from '../../captures/times/stream-reader.ts';
import { toNamedError } from '../../core/errors/errors.ts';
import { type Exchange, type ExchangeError, MAX_KEPT_BYTES } from '../http/exchange.ts';
import { DISTRIBUTION_METRICS, type RequestMetric } from '../metrics.ts';
import { SageMakerStreamReader } from '../reply/aws-event-stream.ts';
import { Body, nothingSaid, type ReplyContent, readReplyContent } from '../reply/content.ts';
import type { Keep } from '../request/keep.ts';
import { estimateTextTokens, type PreparedRequest, type TokenSource } from '../request/preparer.ts';
import { shownUrl } from '../request/target.ts';

/** Maximum number of bytes of an error reply that are kept as its message. */
const MAX_ERROR_MESSAGE = 4096;

type MetricValues = Partial<Record<RequestMetric, number>>;

/** A request that has ended. Times are ms of `performance.now()`. */
export interface Completion {
  request: PreparedRequest;
  exchange: Exchange;
  /** Time at which the request was due; without a schedule, the time at which it was sent. */
  scheduledAt: number;
  /** Time from which only the client could delay the request: its due time, or later if the cap had no room. */
  roomAt: number;
}

export interface Measured extends Completion {
  content: ReplyContent;
  /** Present if the request failed. */
  error?: ExchangeError;
  cancelled: boolean;
  metrics: MetricValues;
  /** Gaps between the pieces of a stream, ms. */
  gaps?: number[];
  inputSource?: TokenSource;
  outputSource?: TokenSource;
}

/** Whether `--request-cancellation-rate` caused the cancellation, so that the target is not at fault. */
export const isCancelledOnPurpose = ({ cancelled, request }: Measured): boolean =>
  cancelled && request.cancelAfterMs !== undefined;

export type Objectives = ReadonlyMap<RequestMetric, number>;

/** AIPerf's name for a successful status with an unreadable reply. */
export const INVALID_REPLY = 'InvalidInferenceResultError';
const UNREADABLE_REPLY = 'ReplyNotRecorded';
export const CANCELLED_TYPE = 'RequestCancellationError';

const EVENTS_TYPE = /^text\/event-stream/i;

/**
 * Returns the codings of a reply's body; empty if it is sent as it is. A replay requests none, but a server may use one. As in
 * captures, gzip and deflate are unpacked.
 */
const codingOf = (headers: ReadonlyMap<string, string>): string =>
  `${headers.get('content-encoding') ?? ''},${headers.get('transfer-encoding') ?? ''}`
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((one) => !['', 'identity', 'chunked'].includes(one))
    .join(', ');

/** Opens the reader for a reply that is, or may be, streamed. Other replies are kept whole. */
export function openReader(status: number, headers: Map<string, string>, streaming: boolean): StreamReader | undefined {
  // A compressed reply is read when it is complete: its pieces have no separate times.
  if (status >= 300 || codingOf(headers) !== '') return undefined;
  const type = headers.get('content-type') ?? null;
  if (/^application\/vnd\.amazon\.eventstream/i.test(type ?? '')) {
    return new SageMakerStreamReader(headers.get('x-amzn-sagemaker-content-type'));
  }
  return streaming || EVENTS_TYPE.test(type ?? '') ? new StreamReader(type, MAX_KEPT_BYTES) : undefined;
}

/** Returns the reader of a streamed reply, with or without SageMaker's framing. */
export const streamOf = ({ reader }: Exchange): StreamReader | undefined => (reader?.isStream ? reader : undefined);

/** The request's body, as Data Capture would record it. */
export const sentBody = ({ wire, bodyAt, contentType }: PreparedRequest): Body =>
  new Body(wire.subarray(bodyAt), contentType);
/** The reply's body, as Data Capture would record it. */
export const repliedBody = ({ reader, body, headers }: Exchange): Body =>
  new Body(reader?.body ?? body, reader ? reader.contentType : (headers.get('content-type') ?? null));

/** Reads the reply. */
function readExchange(request: PreparedRequest, exchange: Exchange): ReplyContent {
  const { reader } = exchange;
  reader?.end();
  const body = repliedBody(exchange);
  exchange.tooLarge ||= reader?.tooLarge ?? false;
  // A reply of which only the size is known does not count as broken.
  if (exchange.tooLarge) return { text: '', usage: reader?.usage };
  if (exchange.error && !reader) return { text: '' };
  const content = readReplyContent(body, sentBody(request));
  if (reader instanceof SageMakerStreamReader) content.error = reader.error ?? content.error;
  const cut =
    exchange.endedByClose && content.ended === false
      ? 'the server closed the connection before the stream was complete'
      : undefined;
  const coding = codingOf(exchange.headers);
  const packed =
    coding !== '' && (content.kind === 'bytes' || content.problem !== undefined)
      ? `its content coding ${JSON.stringify(coding.slice(0, 40))} could not be decoded`
      : undefined;
  content.problem = reader?.problem ?? packed ?? content.problem ?? cut ?? nothingSaid(content, request.captured);
  return content;
}

/** Returns the error that a complete reply reports, or `undefined`. */
function replyError(exchange: Exchange, content: ReplyContent): ExchangeError | undefined {
  const { status, headers } = exchange;
  const { error, problem } = content;
  if (status < 200 || status >= 300) {
    const aws = headers.get('x-amzn-errortype')?.split(':')[0];
    const { body } = exchange;
    const text = isUtf8(body) ? body.subarray(0, MAX_ERROR_MESSAGE).toString('utf8') : content.text;
    const said = error?.message || text.slice(0, MAX_ERROR_MESSAGE) || exchange.reason;
    const to = headers.get('location');
    const message = to === undefined ? said : `${said}; to ${shownUrl(to)}: redirects are not followed`;
    return { code: status, type: aws ?? (exchange.reason || `HTTP ${status}`), message };
  }
  if (error) return { ...error, type: error.type ?? 'ErrorReply', message: error.message.slice(0, MAX_ERROR_MESSAGE) };
  return problem === undefined ? undefined : { type: INVALID_REPLY, message: `Invalid inference result: ${problem}` };
}

/** Its type and its message are the target's words. */
const maskedError = ({ keep }: PreparedRequest, error: ExchangeError): ExchangeError =>
  keep ? { ...error, type: keep.id(error.type), message: keep.texts(error.message) } : error;

/** Reads the reply and computes the request's metrics. */
export function measure(done: Completion, objectives: Objectives): Measured {
  const { request, exchange } = done;
  let content: ReplyContent;
  try {
    content = readExchange(request, exchange);
  } catch (thrown) {
    // A reply that breaks its reader affects its own request only.
    content = { text: '', problem: `it cannot be read: ${toNamedError(thrown).name}` };
  }
  const error = exchange.error ?? replyError(exchange, content);
  const measured = measuredAs(done, content, error && maskedError(request, error));
  if (!measured.error) fillMetrics(measured, streamOf(exchange), objectives);
  // A number that JSON cannot represent would make the result files unreadable.
  for (const tag of Object.keys(measured.metrics) as RequestMetric[])
    if (!Number.isFinite(measured.metrics[tag])) delete measured.metrics[tag];
  return measured;
}

/** Measures a request whose reply cannot be recorded. The fault is the client's own, and affects no other request. */
export function notRecorded(done: Completion, cause: unknown): Measured {
  const { exchange } = done;
  const message = `The reply could not be read or recorded: ${toNamedError(cause).name}`;
  const error = exchange.error ?? { type: UNREADABLE_REPLY, message };
  exchange.release();
  return measuredAs(done, { text: '' }, error);
}

const measuredAs = (done: Completion, content: ReplyContent, error: ExchangeError | undefined): Measured => ({
  ...done,
  content,
  error,
  cancelled: error?.type === CANCELLED_TYPE,
  metrics: {},
});

function fillMetrics(measured: Measured, stream: StreamReader | undefined, objectives: Objectives): void {
  const { exchange, metrics } = measured;
  const { startedAt } = exchange;
  const lastContentAt = stream?.contentAt.at(-1) ?? exchange.endAt;
  const latency = lastContentAt - startedAt;
  metrics.request_latency = latency;
  const output = fillTokens(measured, stream);
  if (output !== undefined && latency > 0) metrics.e2e_output_token_throughput = (output * 1000) / latency;
  if (stream && stream.pieces > 0) fillStream(measured, stream, output);
  if (objectives.size > 0) metrics.good_request_count = meets(metrics, objectives) ? 1 : 0;
}

/** @returns the number of output tokens, if the reply has a count */
function fillTokens(measured: Measured, stream: StreamReader | undefined): number | undefined {
  const { metrics, content, request } = measured;
  const { usage } = content;
  if (usage?.inputTokens !== undefined) {
    metrics.input_sequence_length = usage.inputTokens;
    measured.inputSource = 'server';
  } else if (request.inputTokens) {
    metrics.input_sequence_length = request.inputTokens.count;
    measured.inputSource = request.inputTokens.source;
  }
  let output: number | undefined;
  if (usage?.outputTokens !== undefined) {
    output = usage.outputTokens;
    measured.outputSource = 'server';
  } else if (stream) {
    output = stream.pieces;
    measured.outputSource = 'chunks';
  } else if (content.text !== '' && request.inputTokens) {
    output = estimateTextTokens(content.text);
    measured.outputSource = 'estimate';
  }
  if (output === undefined) return undefined;
  metrics.output_sequence_length = output;
  const limit = request.outputLimit;
  if (limit !== undefined) metrics.osl_mismatch_diff_pct = ((output - limit) / limit) * 100;
  return output;
}

function fillStream(measured: Measured, stream: StreamReader, output: number | undefined): void {
  const { metrics, exchange } = measured;
  const { contentAt } = stream;
  const first = contentAt[0] ?? exchange.endAt;
  const last = contentAt.at(-1) ?? first;
  metrics.time_to_first_token = first - exchange.startedAt;
  if (!Number.isNaN(stream.firstOutputAt))
    metrics.time_to_first_output_token = stream.firstOutputAt - exchange.startedAt;
  if (contentAt.length < 2) return;
  metrics.time_to_second_token = (contentAt[1] ?? first) - first;
  if (!stream.tooLarge) measured.gaps = contentAt.slice(1).map((at, i) => at - (contentAt[i] ?? at));
  if (output === undefined || output < 2) return;
  const perToken = (last - first) / (output - 1);
  metrics.inter_token_latency = perToken;
  if (perToken > 0) metrics.output_token_throughput_per_user = 1000 / perToken;
}

/** Whether a request meets every objective. A request without the metric fails its objective. */
function meets(metrics: MetricValues, objectives: Objectives): boolean {
  for (const [tag, threshold] of objectives) {
    const value = metrics[tag];
    if (value === undefined) return false;
    if (DISTRIBUTION_METRICS[tag].largerIsBetter ? value < threshold : value > threshold) return false;
  }
  return true;
}

// ------------------------------------------------------------------------------------------------------------ previews
// The beginning of a request or a reply, for people to read.

const PREVIEW_CHARACTERS = 2_000;

/** @param keep masks the text before it is cut */
export function bodyPreview(side: Parameters<Keep['body']>[0], body: Body, keep?: Keep): string {
  const { bytes } = body;
  const text = keep ? keep.body(side, body) : bytes.subarray(0, PREVIEW_CHARACTERS * 4).toString('utf8');
  // Text has no control characters other than line breaks and tabs.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: detects control characters
  if (/[\x00-\x08\x0b\x0c\x0e-\x1f]/.test(text)) return `(binary, ${bytes.length} bytes)`;
  return text.length > PREVIEW_CHARACTERS ? `${text.slice(0, PREVIEW_CHARACTERS)} …` : text;
}
