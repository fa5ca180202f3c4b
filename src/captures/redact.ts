/** The step after decoding that masks personal data and secrets in a capture, before it is interpreted or written. */

import type { Redaction } from '../core/settings/redact-setting.ts';
import { type JsonObject, toJson } from './json.ts';
import { decodePayload } from './payload/decode-payload.ts';
import { openEnvelope } from './record/envelope.ts';
import { maskedForm, NOT_MASKED } from './redact/encoded.ts';
import { Masker } from './redact/mask.ts';
import type { Capture, DecodeOptions, Identity, Payload, RecordFacts } from './types.ts';
import { Scale } from './weight.ts';

/** All of a record that callers can write. */
export interface Captured {
  facts: RecordFacts;
  identity: Identity;
  request: Payload | undefined;
  response: Payload | undefined;
  /** Notes may quote the capture. */
  notes: string[];
}

/** Masks a record according to `REDACT`. Without this setting, the record is unchanged. */
export function redacted(captured: Captured, options: DecodeOptions): Captured & { how: Partial<Capture> } {
  const { redaction, featureNames } = options;
  const { masked: known } = captured.facts.exchange ?? {};
  const content = (known ?? redaction?.content) === 'none' ? { content: 'none' as const } : {};
  if (redaction === undefined || known !== undefined) return { ...captured, how: content };
  const masker = new Masker(redaction, featureNames);
  const { facts, identity, request, response, notes } = captured;
  const masked = {
    facts: maskedFacts(masker, facts),
    identity: maskedIdentity(masker, identity, redaction),
    request: request && maskedPayload(masker, request, true, options),
    response: response && maskedPayload(masker, response, false, options),
    notes: notes.map((note) => maskedNote(masker, note)),
  };
  const isWithheld = [masked.request, masked.response].some((payload) => payload?.text?.includes(NOT_MASKED));
  const counts = { ...masker.counts, ...(isWithheld ? { 'not masked': 1 } : {}) };
  return {
    ...masked,
    how: {
      ...(Object.keys(counts).length > 0 ? { masked: counts } : {}),
      ...content,
      unmask: (text) => masker.unmask(text),
      found: (text, kinds) => masker.found(text, kinds),
    },
  };
}

/** A quote that is cut off may end within an item. */
const maskedNote = (masker: Masker, note: string): string => masker.text(note.replace(/“.{40,60}”/s, '“…”'));

/** Masks the identity. Without texts, the caller and the session become pseudonyms. */
function maskedIdentity(masker: Masker, identity: Identity, { content }: Redaction): Identity {
  const { attributes, sessionId, userId, replayRun, traceparent } = identity;
  if (content !== 'none') return masker.value({ ...identity, attributes: { ...attributes } }, true) as Identity;
  return {
    ...identity,
    attributes: {},
    ...(sessionId && { sessionId: masker.whole('session', sessionId) }),
    ...(userId && { userId: masker.whole('user', userId) }),
    ...(replayRun && { replayRun: masker.whole('replay_run', replayRun) }),
    ...(traceparent && { traceparent: masker.text(traceparent) }),
  };
}

/**
 * Masks a capture line according to `REDACT`. In the new line, a stream becomes the document that it assembles to, and
 * bytes are left out. Returns `undefined` if the line cannot be read, and so not masked.
 *
 * @example
 *     await write(maskedLine(line.bytes, { redaction }) ?? Buffer.of());
 */
export function maskedLine(bytes: Buffer, options: DecodeOptions): Buffer | undefined {
  const { redaction } = options;
  if (redaction === undefined) return bytes;
  const opened = openEnvelope(bytes, new Scale());
  if ('reason' in opened) return undefined;
  const { captureData, ...rest } = opened.envelope.record as JsonObject & { captureData: JsonObject };
  const masker = new Masker(redaction, options.featureNames);
  const sideOf = (side: 'request' | 'reply', mode: string, captured: unknown) => {
    const payload = decodePayload({ side, notes: [], scale: new Scale() }, captured);
    if (payload === undefined) return undefined;
    const { kind, contentType, text = '' } = maskedPayload(masker, payload, side === 'request', options);
    const observedContentType = kind === 'event-stream' || kind === 'jsonlines' ? 'application/json' : contentType;
    return { observedContentType, mode, data: Buffer.from(text).toString('base64'), encoding: 'BASE64' };
  };
  const masked = {
    endpointInput: sideOf('request', 'INPUT', captureData.endpointInput),
    endpointOutput: sideOf('reply', 'OUTPUT', captureData.endpointOutput),
  };
  return Buffer.from(JSON.stringify({ ...(masker.value(rest, true) as JsonObject), captureData: masked }));
}

/**
 * @returns the payload. Its text stays as captured only if no data was masked and the text contains no more than the
 *   value
 */
function maskedPayload(masker: Masker, payload: Payload, isRequest: boolean, options: DecodeOptions): Payload {
  const { text: captured = '', keepText, ...rest } = payload;
  const { kind, contentType, problem } = payload;
  const about = {
    ...rest,
    contentType: contentType && masker.text(contentType),
    encoding: masker.text(payload.encoding),
    ...(problem && { problem: maskedNote(masker, problem) }),
  };
  if (kind === 'binary' || kind === 'empty') return { ...about, value: masker.value(payload.value, false) };
  // Unreadable data may contain anything, in any encoding.
  if (kind === 'raw') return { ...about, value: NOT_MASKED, text: NOT_MASKED };
  const before = masker.changes;
  if (kind === 'csv' && isRequest) {
    const rows = payload.value as unknown[][];
    const [header = []] = rows;
    if (options.csvHeader) masker.columns(rows.slice(1), header.map(String));
    else masker.columns(rows);
  }
  // The events of a stream in an unknown form are parts of its text.
  const cut = kind === 'event-stream' && Array.isArray(payload.value) ? 'surely' : 'maybe';
  const isCut = kind === 'event-stream' || kind === 'csv';
  const value =
    kind === 'text' && /^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(contentType ?? '')
      ? maskedForm(captured, (pair) => masker.value(pair, true) as typeof pair)
      : masker.value(payload.value, isRequest || kind === 'text', isCut ? cut : undefined);
  const isSame = masker.changes === before;
  if (isSame && kind === 'json' && !keepText) return { ...about, value, text: captured };
  let text = kind === 'text' ? String(value) : (toJson(value) ?? NOT_MASKED);
  if (kind === 'csv') text = (value as unknown[][]).map((row) => row.join(',')).join('\n');
  // A reply keeps blank lines and quotes: its length is a verdict.
  if (kind === 'csv' && !isRequest && isSame) text = masker.text(captured);
  if (captured !== text) masker.captured.set(text, captured);
  return { ...about, value, text };
}

function maskedFacts(masker: Masker, facts: RecordFacts): RecordFacts {
  const { call, exchange: _, inferenceTimeMs: __, timeSource: ___, ...own } = facts;
  const error = call?.error && { ...call.error, class: masker.text(call.error.class) };
  return { ...facts, ...(call && error && { call: { ...call, error } }), ...(masker.value(own, true) as typeof own) };
}
