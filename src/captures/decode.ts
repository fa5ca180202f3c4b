/** Decodes a line of a capture file. The entry point of this folder. */
import { saidBy } from '../core/errors/errors.ts';
import { weightAtOnce } from '../core/process/memory.ts';
import { captureTimeMs, MIN_TIMED_BYTES, withinTime } from '../core/process/within-time.ts';
import { takeClientCall } from './client-call.ts';
import { asText, isObject } from './json.ts';
import { interpret } from './meaning/interpret.ts';
import { announcedBy } from './payload/captured-data.ts';
import { decodePayload } from './payload/decode-payload.ts';
import { type Envelope, openEnvelope } from './record/envelope.ts';
import { identityOf } from './record/identity.ts';
import { inferenceTimeOf } from './record/inference-time.ts';
import { type Captured, redacted } from './redact.ts';
import { withFirstToken } from './times/first-token.ts';
import type { Capture, DecodedLine, DecodeOptions, ExchangeFacts, Payload, RawLine, RecordFacts } from './types.ts';
import { BYTES_A_CHARACTER, Scale, TooHeavy } from './weight.ts';

/**
 * Maximum weight of a line whose decoding has no time limit: two sides that unpack to no more than the size of a small
 * line.
 */
const UNWATCHED_WEIGHT = 2 * MIN_TIMED_BYTES * BYTES_A_CHARACTER;

/**
 * Decodes one line. The result is a capture or a reason to quarantine. It never throws, whatever the bytes are. Only a
 * line that is not a capture record is quarantined. A payload that cannot be decoded is kept as captured.
 *
 * @example
 *     const line = decodeLine(raw);
 *     if (line.kind === 'capture') write(buildTrace(line.capture, raw, { experimentId, endpointName }));
 *     else quarantine(line.reason);
 */
export function decodeLine(raw: RawLine, options: DecodeOptions = {}): DecodedLine {
  const { timeMs, maxWeight = weightAtOnce() } = options;
  if (timeMs === undefined && raw.bytes.length < MIN_TIMED_BYTES) {
    const most = Math.min(UNWATCHED_WEIGHT, maxWeight);
    const line = decode(raw, { ...options, maxWeight: most }, Number.POSITIVE_INFINITY);
    if (!line.tooHeavy) return line;
  }
  return decode(raw, options, captureTimeMs(raw.bytes.length));
}

function decode(raw: RawLine, options: DecodeOptions, timeMs: number): DecodedLine {
  const scale = new Scale(options.maxWeight);
  const limitOf = (error: unknown): { tooHeavy?: true } => (error instanceof TooHeavy ? { tooHeavy: true } : {});
  try {
    scale.characters(raw.bytes.length);
    const opened = openEnvelope(raw.bytes, scale);
    if ('reason' in opened) return { kind: 'quarantine', reason: opened.reason };
    const { envelope } = opened;
    const keep = (problem: unknown): DecodedLine => {
      const capture = withinTime(timeMs, () => undecodedCapture(envelope, raw, options, problem));
      return { kind: 'capture', capture, weight: raw.bytes.length * BYTES_A_CHARACTER, ...limitOf(problem) };
    };
    if (options.keepRaw !== undefined) return keep(options.keepRaw);
    try {
      const capture = withinTime(options.timeMs ?? timeMs, () => captureOf(envelope, raw, options, scale));
      return { kind: 'capture', capture, weight: scale.weight };
    } catch (error) {
      // The payload exceeds a limit, or this code has a fault. Keep the record in both cases.
      return keep(error);
    }
  } catch (error) {
    const reason = { name: 'NotDecoded', message: `the record cannot be read: ${saidBy(error)}` };
    return { kind: 'quarantine', reason, ...limitOf(error) };
  }
}

const MAX_WHY_CHARS = 200;
const why = (error: unknown): string =>
  (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).slice(0, MAX_WHY_CHARS);

function captureOf(envelope: Envelope, raw: RawLine, options: DecodeOptions, scale: Scale): Capture {
  const { captureData } = envelope;
  const notes = [...envelope.notes];
  const facts = factsOf({ ...envelope, notes }, raw, options, captureData.endpointOutput);
  const request = decodePayload({ side: 'request', notes, scale }, captureData.endpointInput);
  const response = decodePayload({ side: 'reply', notes, scale }, captureData.endpointOutput);
  if (request?.problem !== undefined) notes.push(`request: ${request.problem}`);
  if (response?.problem !== undefined) notes.push(`reply: ${response.problem}`);
  const body = request?.kind === 'json' ? request.value : undefined;
  const identity = identityOf(envelope.record, envelope.eventMetadata, body);
  return maskedCapture({ facts, identity, request, response, notes }, options, (record) =>
    interpret({ ...record, baseId: record.facts.inferenceId, options }),
  );
}

function maskedCapture(
  captured: Captured,
  options: DecodeOptions,
  meaningOf: (record: Captured) => ReturnType<typeof interpret>,
): Capture {
  const record = redacted(captured, options);
  const { facts, identity, request, how, notes } = record;
  return { ...facts, ...meaningOf(record), ...(request === undefined ? {} : { request }), ...identity, ...how, notes };
}

/** @param reply `endpointOutput`, if it is to be read */
function factsOf(envelope: Envelope, raw: RawLine, { areExchanges }: DecodeOptions, reply?: unknown): RecordFacts {
  const { record, eventMetadata, notes } = envelope;
  const { exchange, ...others } = envelope.extraFields ?? {};
  const isExchange = areExchanges && isObject(exchange);
  const { call, fields: extraFields } = takeClientCall(isExchange ? others : (envelope.extraFields ?? {}), notes);
  const eventId = asText(eventMetadata.eventId);
  const capturedInferenceId = asText(eventMetadata.inferenceId);
  const inferenceId = capturedInferenceId ?? eventId;
  const eventVersion = asText(record.eventVersion);
  if (eventId === undefined) notes.push('no eventId was captured');
  if (eventVersion !== undefined && eventVersion !== '0') {
    notes.push(`eventVersion “${eventVersion.slice(0, 40)}” is unknown; read as version 0`);
  }
  return {
    eventId,
    capturedInferenceId,
    inferenceId,
    ...inferenceTimeOf(eventMetadata.inferenceTime, raw.place, notes),
    ...(eventVersion === undefined ? {} : { eventVersion }),
    ...(call === undefined ? {} : { call: withFirstToken(call, reply) }),
    ...(isExchange ? { exchange: exchange as unknown as ExchangeFacts } : {}),
    ...(Object.keys(extraFields).length > 0 ? { extraFields } : {}),
  };
}

/** Keeps the payloads as captured, after decoding them failed. */
function undecodedCapture(envelope: Envelope, raw: RawLine, options: DecodeOptions, error: unknown): Capture {
  const notes = [...envelope.notes];
  const facts = factsOf({ ...envelope, notes }, raw, options);
  const kept = options.redaction ? 'not kept' : 'kept as captured';
  notes.push(`the payloads could not be decoded (${why(error)}) and are ${kept}`);
  const keep = (side: unknown): Payload | undefined => {
    if (side === undefined || side === null) return undefined;
    const { data } = isObject(side) ? side : {};
    const text = typeof data === 'string' ? data : '';
    const problem = 'could not be decoded';
    return { ...announcedBy(side), kind: 'raw', value: text, text, bytes: Buffer.byteLength(text), problem };
  };
  const request = keep(envelope.captureData.endpointInput);
  const response = keep(envelope.captureData.endpointOutput);
  const captured = { facts, identity: { attributes: {} }, request, response, notes };
  return maskedCapture(captured, options, (record) => ({ format: 'text', response: record.response }));
}
