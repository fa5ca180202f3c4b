/** Reads a captured request as it will be sent: its body byte for byte, unless an override is set. */

import { type CallTimes, callTimesOf } from '../../captures/call-times.ts';
import { takeClientCall } from '../../captures/client-call.ts';
import { asText, isObject, type JsonObject, parseJson } from '../../captures/json.ts';
import { payloadBytes } from '../../captures/payload/captured-data.ts';
import { openEnvelope } from '../../captures/record/envelope.ts';
import { withFirstToken } from '../../captures/times/first-token.ts';
import { Scale } from '../../captures/weight.ts';
import { readWirePrompt } from '../../captures/wire/registry.ts';
import type { WirePrompt } from '../../captures/wire/wire-format.ts';
import { parseSetting, type ReplayOptions } from '../options.ts';
import { skippedAs } from '../source/peek.ts';
import type { Skipped } from '../source/types.ts';
import { setJsonValue } from './json-splice.ts';

/** The options that change requests. Each changes only the value it names. */
type Overrides = Partial<Pick<ReplayOptions, 'model' | 'set' | 'stream'>>;

export interface LiteralRequest {
  body: Buffer;
  contentType: string;
  /** The body as parsed, when it is a JSON object. */
  json?: JsonObject;
  /** The prompt, when the request asks for text. */
  prompt?: WirePrompt;
  /** The request asks for a streamed reply. */
  streaming: boolean;
  eventId?: string;
  inferenceId?: string;
  /** The two sides of the record, not decoded. */
  capturedRequest?: unknown;
  capturedReply?: unknown;
  /** The capture client's measurements. */
  capturedTimes?: CallTimes;
}

export type LiteralOrSkip = { kind: 'request'; request: LiteralRequest } | Skipped;

/** Returns a content type that SageMaker accepts: at most 1,024 characters, without control characters. */
function contentTypeOf(observed: unknown, looksLikeJson: boolean): string {
  if (typeof observed === 'string' && /^[\x20-\x7e]{1,1024}$/.test(observed)) return observed;
  return looksLikeJson ? 'application/json' : 'application/octet-stream';
}

const OPENINGS = Buffer.from('{[');

/** Returns the JSON document of a body. Returns `undefined` for other bodies, which are sent as captured. */
function documentIn(body: Buffer): unknown {
  let first = 0;
  while (first < body.length && (body[first] ?? 0) <= 0x20) first++;
  if (!OPENINGS.includes(body[first] ?? 0)) return undefined;
  const parsed = parseJson(body.toString('utf8'));
  return parsed.ok ? parsed.value : undefined;
}

const objectOf = (document: unknown): JsonObject | undefined => (isObject(document) ? document : undefined);

/** A request in the OpenAI form can ask for the usage at the end of the stream. */
const isOpenAi = (json: JsonObject): boolean => 'messages' in json || 'prompt' in json;

function override(body: Buffer, json: JsonObject, { model, set = [], stream }: Overrides): Buffer {
  let text = body.toString('utf8');
  // A body that is not UTF-8 would lose its invalid bytes.
  if (!Buffer.from(text, 'utf8').equals(body)) throw new Error('the body is not UTF-8');
  if (model !== undefined) text = setJsonValue(text, ['model'], JSON.stringify(model));
  if (stream) {
    text = setJsonValue(text, ['stream'], 'true');
    if (isOpenAi(json) && json.stream_options === undefined) {
      text = setJsonValue(text, ['stream_options'], '{"include_usage":true}');
    }
  }
  for (const { path, value } of set.map(parseSetting)) text = setJsonValue(text, path, value);
  return Buffer.from(text, 'utf8');
}

/**
 * Reads the request of a capture line.
 *
 * @throws TooHeavy
 */
export function literalRequest(line: Buffer, overrides: Overrides = {}): LiteralOrSkip {
  const opened = openEnvelope(line, new Scale());
  if ('reason' in opened) return skippedAs(opened.reason.name, opened.reason.message);
  const { captureData, eventMetadata, extraFields = {} } = opened.envelope;
  const { endpointInput: side, endpointOutput } = captureData;
  if (!isObject(side)) return skippedAs('NoRequest', 'The record has no captured request');
  let body = payloadBytes(side);
  if (typeof body === 'string') {
    const reason = side.data === null || side.data === undefined ? 'NoRequest' : 'UndecodableRequest';
    // A quote may contain values that must be masked.
    return skippedAs(reason, `The captured request cannot be sent: ${body.replace(/“.{0,60}”/s, '“…”')}`);
  }
  let document = documentIn(body);
  const captured = objectOf(document);
  const changes = overrides.model !== undefined || overrides.stream || overrides.set?.length;
  if (captured && changes) {
    try {
      body = override(body, captured, overrides);
    } catch (error) {
      return skippedAs('OverrideFailed', `An override cannot be applied: ${(error as Error).message}`);
    }
    document = documentIn(body);
  }
  const json = objectOf(document);
  const { call } = takeClientCall(extraFields, []);
  return {
    kind: 'request',
    request: {
      body,
      contentType: contentTypeOf(side.observedContentType, json !== undefined),
      json,
      prompt: document === undefined ? undefined : readWirePrompt(document, undefined),
      streaming: json?.stream === true,
      eventId: asText(eventMetadata.eventId),
      inferenceId: asText(eventMetadata.inferenceId),
      capturedRequest: side,
      capturedReply: endpointOutput,
      capturedTimes: callTimesOf({ call: call && withFirstToken(call, endpointOutput) }),
    },
  };
}
