/** From what happened on the wire to the metrics of the request. */
import { toNamedError } from '../../shared/errors.ts';
import { codingsOf, type Exchange, type ExchangeError } from '../http/exchange.ts';
import { Body, type ReplyContent, readReplyContent } from '../reply/content.ts';
import { SageMakerStreamReader, StreamReader } from '../reply/stream-reader.ts';
import type { PreparedRequest, TokenSource } from '../request/prepared.ts';
import { estimateTextTokens } from '../request/tokens.ts';
import { shownUrl } from '../targets/target.ts';
import { DISTRIBUTION_METRICS, type RequestMetric } from './metrics.ts';

/** Bytes of an error reply that are kept as its message. */
const MAX_ERROR_MESSAGE = 4096;

type MetricValues = Partial<Record<RequestMetric, number>>;

export interface Measured {
  request: PreparedRequest;
  exchange: Exchange;
  /** Moment it should have been sent, ms of `performance.now()`; without a schedule the moment it was. */
  scheduledAt: number;
  /** Moment from which only the client itself could delay it: the scheduled one, or later when the cap had no room. */
  roomAt: number;
  content: ReplyContent;
  /** There when it failed. */
  error?: ExchangeError;
  cancelled: boolean;
  metrics: MetricValues;
  /** Gaps between the pieces of a stream, ms. */
  gaps?: number[];
  inputSource?: TokenSource;
  outputSource?: TokenSource;
}

/** By `--request-cancellation-rate`: it says nothing of the target. */
export const isCancelledOnPurpose = ({ cancelled, request }: Measured): boolean =>
  cancelled && request.cancelAfterMs !== undefined;

export type Objectives = ReadonlyMap<RequestMetric, number>;

const INVALID_REPLY = 'InvalidInferenceResultError';
const UNREADABLE_REPLY = 'ReplyNotRecorded';
export const CANCELLED_TYPE = 'RequestCancellationError';

const EVENTS_TYPE = /^text\/event-stream/i;

/** Opens the reader for a reply that is, or may be, streamed; others are kept whole. */
export function openReader(
  status: number,
  headers: Map<string, string>,
  streaming: boolean,
  keepRaw = false,
): StreamReader | SageMakerStreamReader | undefined {
  // What is compressed is read when it is there: its pieces have no times of their own.
  if (status >= 300 || codingsOf(headers).length > 0) return undefined;
  const type = headers.get('content-type') ?? null;
  if (/^application\/vnd\.amazon\.eventstream/i.test(type ?? '')) {
    return new SageMakerStreamReader(headers.get('x-amzn-sagemaker-content-type'), keepRaw);
  }
  return streaming || EVENTS_TYPE.test(type ?? '') ? new StreamReader(type, keepRaw) : undefined;
}

const readerOf = ({ reader }: Exchange): StreamReader | undefined =>
  reader instanceof SageMakerStreamReader ? reader.inner : reader instanceof StreamReader ? reader : undefined;

/** The reader of a reply that came as a stream, whatever framed it. */
export function streamOf(exchange: Exchange): StreamReader | undefined {
  const reader = readerOf(exchange);
  return reader?.isStream || exchange.reader instanceof SageMakerStreamReader ? reader : undefined;
}

/** What was sent, and what came back, as Data Capture would have it. */
export const sentBody = ({ wire, bodyAt, contentType }: PreparedRequest): Body =>
  new Body(wire.subarray(bodyAt), contentType);
export function repliedBody(exchange: Exchange): Body {
  const reader = readerOf(exchange);
  return reader
    ? new Body(reader.body, reader.contentType)
    : new Body(exchange.body, exchange.headers.get('content-type') ?? null);
}

/** Reads what came back. */
function readExchange(request: PreparedRequest, exchange: Exchange): ReplyContent {
  const reader = readerOf(exchange);
  const frames = exchange.reader instanceof SageMakerStreamReader ? exchange.reader : undefined;
  (frames ?? reader)?.end();
  const body = repliedBody(exchange);
  exchange.tooLarge ||= reader?.tooLarge ?? false;
  // A reply of which only the size is known is no broken one.
  if (exchange.tooLarge) return { text: '', usage: reader?.usage };
  if (exchange.error && !reader) return { text: '' };
  const content = readReplyContent(body, sentBody(request));
  content.error = frames?.error ?? content.error;
  // Why a complete reply is none, in words.
  const cut =
    exchange.endedByClose && content.ended === false
      ? 'the server closed the connection before the stream said that it was complete'
      : undefined;
  const undecoded = content.isDocument ? undefined : exchange.undecoded;
  content.problem = reader?.problem ?? undecoded ?? content.problem ?? cut;
  return content;
}

/** The error that a complete reply stands for, if it does. */
function replyError(exchange: Exchange, content: ReplyContent): ExchangeError | undefined {
  const { status, headers } = exchange;
  const { error, problem } = content;
  if (status < 200 || status >= 300) {
    const aws = headers.get('x-amzn-errortype')?.split(':')[0];
    const body = exchange.body.subarray(0, MAX_ERROR_MESSAGE).toString('utf8');
    const said = error?.message || body || exchange.reason;
    const to = headers.get('location');
    const message = to === undefined ? said : `${said}; to ${shownUrl(to)}: redirects are not followed`;
    return { code: status, type: aws ?? (exchange.reason || `HTTP ${status}`), message };
  }
  if (error) return { ...error, type: error.type ?? 'ErrorReply', message: error.message.slice(0, MAX_ERROR_MESSAGE) };
  return problem === undefined ? undefined : { type: INVALID_REPLY, message: `Invalid inference result: ${problem}` };
}

/** Reads the reply and computes the request's metrics. */
export function measure(
  request: PreparedRequest,
  exchange: Exchange,
  scheduledAt: number,
  roomAt: number,
  objectives: Objectives,
): Measured {
  let content: ReplyContent;
  try {
    content = readExchange(request, exchange);
  } catch (thrown) {
    // Whatever a reply does to what reads it, it does to its own request alone.
    content = { text: '', problem: `it cannot be read: ${toNamedError(thrown).name}` };
  }
  const error = exchange.error ?? replyError(exchange, content);
  const measured: Measured = {
    request,
    exchange,
    scheduledAt,
    roomAt,
    content,
    error,
    cancelled: error?.type === CANCELLED_TYPE,
    metrics: {},
  };
  if (!error) fillMetrics(measured, streamOf(exchange), objectives);
  // JSON has no such number: one would make the files of all requests unreadable.
  for (const tag of Object.keys(measured.metrics) as RequestMetric[])
    if (!Number.isFinite(measured.metrics[tag])) delete measured.metrics[tag];
  return measured;
}

/** What is recorded of a request whose reply cannot be: the client's own fault, and of no other request. */
export function notRecorded(
  request: PreparedRequest,
  exchange: Exchange,
  scheduledAt: number,
  roomAt: number,
  cause: unknown,
): Measured {
  const message = `The reply could not be read or recorded: ${toNamedError(cause).name}`;
  const error = exchange.error ?? { type: UNREADABLE_REPLY, message };
  exchange.release();
  return {
    request,
    exchange,
    scheduledAt,
    roomAt,
    content: { text: '' },
    error,
    cancelled: error.type === CANCELLED_TYPE,
    metrics: {},
  };
}

function fillMetrics(measured: Measured, stream: StreamReader | undefined, objectives: Objectives): void {
  const { exchange, metrics } = measured;
  const { startedAt } = exchange;
  const lastContentAt = stream?.contentAt.at(-1) ?? exchange.endAt;
  const latency = lastContentAt - startedAt;
  metrics.request_latency = latency;
  const output = fillTokens(measured, stream);
  if (output !== undefined && latency > 0) metrics.e2e_output_token_throughput = (output * 1000) / latency;
  if (stream && stream.pieces > 0) fillStream(measured, stream, output);
  fillHttp(metrics, exchange);
  if (objectives.size > 0) metrics.good_request_count = meets(metrics, objectives) ? 1 : 0;
}

/** @returns the output's length in tokens, when the reply has one. */
function fillTokens(measured: Measured, stream: StreamReader | undefined): number | undefined {
  const { metrics, content, request } = measured;
  const { usage } = content;
  if (usage?.input !== undefined) {
    metrics.input_sequence_length = usage.input;
    metrics.usage_prompt_tokens = usage.input;
    measured.inputSource = 'server';
  } else if (request.inputTokens) {
    metrics.input_sequence_length = request.inputTokens.count;
    measured.inputSource = request.inputTokens.source;
  }
  if (usage?.total !== undefined) metrics.usage_total_tokens = usage.total;
  let output: number | undefined;
  if (usage?.output !== undefined) {
    output = usage.output;
    metrics.usage_completion_tokens = output;
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
  metrics.output_token_count = output;
  const limit = request.outputLimit;
  if (limit !== undefined) metrics.osl_mismatch_diff_pct = ((output - limit) / limit) * 100;
  if (usage?.reasoning !== undefined) {
    metrics.usage_reasoning_tokens = usage.reasoning;
    metrics.reasoning_token_count = usage.reasoning;
    metrics.output_token_count = Math.max(0, output - usage.reasoning);
  }
  return output;
}

function fillStream(measured: Measured, stream: StreamReader, output: number | undefined): void {
  const { metrics, exchange } = measured;
  const { contentAt } = stream;
  const first = contentAt[0] ?? exchange.endAt;
  const last = contentAt.at(-1) ?? first;
  const untilFirst = first - exchange.startedAt;
  metrics.time_to_first_token = untilFirst;
  metrics.decode_duration = last - first;
  if (!Number.isNaN(stream.firstOutputAt))
    metrics.time_to_first_output_token = stream.firstOutputAt - exchange.startedAt;
  const input = metrics.input_sequence_length;
  if (input !== undefined && untilFirst > 0) metrics.prefill_throughput_per_user = (input * 1000) / untilFirst;
  if (contentAt.length < 2) return;
  metrics.time_to_second_token = (contentAt[1] ?? first) - first;
  if (!stream.tooLarge) measured.gaps = contentAt.slice(1).map((at, i) => at - (contentAt[i] ?? at));
  if (output === undefined || output < 2) return;
  const perToken = (last - first) / (output - 1);
  metrics.inter_token_latency = perToken;
  if (perToken > 0) metrics.output_token_throughput_per_user = 1000 / perToken;
}

const BYTES_PER_KB = 1024;

function fillHttp(metrics: MetricValues, exchange: Exchange): void {
  const { startedAt, sendStartAt, firstByteAt, lastByteAt, reused } = exchange;
  // A reply may begin before the kernel has taken the whole of a large request.
  const sendEndAt = Number.isNaN(exchange.sendEndAt) ? firstByteAt : Math.min(exchange.sendEndAt, firstByteAt);
  const sending = sendEndAt - sendStartAt;
  const waiting = firstByteAt - sendEndAt;
  const receiving = exchange.chunksReceived > 1 ? lastByteAt - firstByteAt : 0;
  const blocked = reused ? 0 : exchange.connectStartAt - startedAt;
  const connecting = reused ? 0 : exchange.connectEndAt - exchange.connectStartAt;
  const overhead = blocked + exchange.dnsMs + connecting;
  const duration = sending + waiting + receiving;
  metrics.http_req_blocked = blocked;
  metrics.http_req_dns_lookup = exchange.dnsMs;
  metrics.http_req_connecting = connecting;
  metrics.http_req_sending = sending;
  metrics.http_req_waiting = waiting;
  metrics.http_req_receiving = receiving;
  metrics.http_req_duration = duration;
  metrics.http_req_connection_overhead = overhead;
  metrics.http_req_total = overhead + duration;
  metrics.http_req_data_sent = exchange.wire.length / BYTES_PER_KB;
  metrics.http_req_data_received = exchange.bytesReceived / BYTES_PER_KB;
  metrics.http_req_chunks_sent = 1;
  metrics.http_req_chunks_received = exchange.chunksReceived;
  metrics.http_req_connection_reused = reused ? 1 : 0;
}

/** Whether a request meets every objective; one that lacks a metric does not. */
function meets(metrics: MetricValues, objectives: Objectives): boolean {
  for (const [tag, threshold] of objectives) {
    const value = metrics[tag];
    if (value === undefined) return false;
    if (DISTRIBUTION_METRICS[tag].largerIsBetter ? value < threshold : value > threshold) return false;
  }
  return true;
}
