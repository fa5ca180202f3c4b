/** The captured request as it is sent: its body byte for byte, unless an override was asked for. */
import { toNamedError } from '../../common/errors.ts';
import { parseJson } from '../json.ts';
import { type EventMetadata, notJson } from '../source/peek.ts';
import { NotSpliceable, setJsonValue } from './json-splice.ts';

/** Changes asked for on the command line; each touches only the value it names. */
export interface Overrides {
  model?: string;
  /** Key path and JSON text of each `--set`. */
  set: readonly { path: readonly string[]; value: string }[];
  /** Ask for a streamed reply. */
  stream: boolean;
}

export const NO_OVERRIDES: Overrides = { set: [], stream: false };

/** One side of a capture record, as captured. */
export interface CapturedSide {
  observedContentType?: string | null;
  data?: unknown;
  encoding?: string;
}

export interface LiteralRequest {
  body: Buffer;
  contentType: string;
  /** The body as parsed, when it is a JSON object. */
  json?: Record<string, unknown>;
  /** The reply is asked for as a stream. */
  streaming: boolean;
  metadata: EventMetadata;
  /** The captured reply, undecoded. */
  capturedReply?: CapturedSide;
}

export interface SkippedRequest {
  kind: 'skipped';
  reason: string;
  message: string;
}
export type LiteralOrSkip = { kind: 'request'; request: LiteralRequest } | SkippedRequest;

const skip = (reason: string, message: string): SkippedRequest => ({ kind: 'skipped', reason, message });

/** Of a record that ends what reads it: it alone is not sent, whatever it holds. */
export function unreadable(error: unknown): SkippedRequest {
  const { name, message } = toNamedError(error);
  return skip('UnreadableRequest', `The captured request cannot be read: ${name}: ${message}`);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Bytes of a captured payload; a string says why there are none. */
export function payloadBytes(side: CapturedSide): Buffer | string {
  const { data } = side;
  if (typeof data !== 'string') {
    // Some writers put the JSON document itself where SageMaker puts its text.
    return data === null || data === undefined ? 'its data is null' : Buffer.from(JSON.stringify(data));
  }
  const encoding = side.encoding ?? 'JSON';
  if (encoding === 'JSON' || encoding === 'CSV') return Buffer.from(data, 'utf8');
  if (encoding !== 'BASE64') return `its encoding is ${JSON.stringify(encoding)}; expected: JSON, CSV or BASE64`;
  const bytes = Buffer.from(data, 'base64');
  // Node drops what is not base64; a payload that lost bytes is not the captured one.
  const unpadded = data
    .replace(/[\s=]+/g, '')
    .replaceAll('-', '+')
    .replaceAll('_', '/');
  if (bytes.toString('base64').replaceAll('=', '') !== unpadded) return 'its data is not base64';
  return bytes;
}

/** Content type as it may stand in a header; a captured one with control characters is none. */
function contentTypeOf(side: CapturedSide, looksLikeJson: boolean): string {
  const observed = side.observedContentType;
  if (typeof observed === 'string' && /^[\x20-\x7e]+$/.test(observed)) return observed;
  return looksLikeJson ? 'application/json' : 'application/octet-stream';
}

const OPEN_BRACE = 0x7b;

function parsedObject(body: Buffer): Record<string, unknown> | undefined {
  let first = 0;
  while (first < body.length && (body[first] ?? 0) <= 0x20) first++;
  if (body[first] !== OPEN_BRACE) return undefined;
  try {
    const value = parseJson(body.toString('utf8'));
    return isObject(value) ? value : undefined;
  } catch {
    // It was captured so and is sent so: what the endpoint makes of it is the endpoint's.
    return undefined;
  }
}

/** Requests in the OpenAI form can ask for the usage at the end of the stream. */
const isOpenAi = (json: Record<string, unknown>): boolean => 'messages' in json || 'prompt' in json;

function override(body: Buffer, json: Record<string, unknown>, overrides: Overrides): Buffer {
  let text = body.toString('utf8');
  // Its other bytes would change: those that are no UTF-8 are lost as text.
  if (!Buffer.from(text, 'utf8').equals(body)) throw new NotSpliceable('the body is no UTF-8');
  if (overrides.model !== undefined) text = setJsonValue(text, ['model'], JSON.stringify(overrides.model));
  if (overrides.stream) {
    text = setJsonValue(text, ['stream'], 'true');
    if (isOpenAi(json) && json.stream_options === undefined) {
      text = setJsonValue(text, ['stream_options'], '{"include_usage":true}');
    }
  }
  for (const { path, value } of overrides.set) text = setJsonValue(text, path, value);
  return Buffer.from(text, 'utf8');
}

/** Reads the request out of a capture line. */
export function literalRequest(line: Buffer, overrides: Overrides): LiteralOrSkip {
  let record: unknown;
  try {
    record = parseJson(line.toString('utf8'));
  } catch (error) {
    const { reason, message } = notJson(error);
    return skip(reason, message);
  }
  if (!isObject(record) || !isObject(record.captureData)) {
    return skip('NotACaptureRecord', 'The line is JSON, but no capture record: it has no captureData');
  }
  const { endpointInput, endpointOutput } = record.captureData;
  if (!isObject(endpointInput)) return skip('NoRequest', 'The record has no captured request');
  const side: CapturedSide = endpointInput;
  const bytes = payloadBytes(side);
  if (typeof bytes === 'string') {
    const reason = side.data === null || side.data === undefined ? 'NoRequest' : 'UndecodableRequest';
    return skip(reason, `The captured request cannot be sent: ${bytes}`);
  }
  let json = parsedObject(bytes);
  let body = bytes;
  const changes = overrides.model !== undefined || overrides.stream || overrides.set.length > 0;
  if (json && changes) {
    try {
      body = override(bytes, json, overrides);
    } catch (error) {
      return skip('OverrideFailed', `An override cannot be applied: ${(error as Error).message}`);
    }
    json = parsedObject(body);
  }
  const metadata: EventMetadata = isObject(record.eventMetadata) ? record.eventMetadata : {};
  return {
    kind: 'request',
    request: {
      body,
      contentType: contentTypeOf(side, json !== undefined),
      json,
      streaming: json?.stream === true,
      metadata,
      capturedReply: isObject(endpointOutput) ? endpointOutput : undefined,
    },
  };
}
