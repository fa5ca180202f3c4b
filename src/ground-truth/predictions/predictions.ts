/** Finds the predictions to store for a capture: one for each inference, under the id that a label refers to. */

import { ofContent } from '../../captures/content.ts';
import { capturePathOf } from '../../captures/files/capture-path.ts';
import { asText, isObject, parseJson, toJson } from '../../captures/json.ts';
import { documentOf, isThere } from '../../captures/payload/decode-payload.ts';
import { messageText } from '../../captures/reply-text.ts';
import { cut } from '../../captures/trace/text.ts';
import type { Capture, LinePlace } from '../../captures/types.ts';
import { questionAnswering } from '../../captures/wire/vendors/hugging-face.ts';
import type { Prediction, PredictionRow } from '../../core/contract/ground-truth.ts';
import type { GroundTruthSettings } from '../../core/settings/ground-truth-setting.ts';
import { MAX_ID_CHARS } from '../label-value.ts';
import { textHashes } from '../texts.ts';
import { predictionOf } from './reply-values.ts';

const MAX_GROUP_CHARS = 64;
const LAST_MS = Date.UTC(9999, 11, 31);
/** A longer text reply is not searched for a prediction. */
const MAX_DOCUMENT_CHARS = 64 * 1024;

/**
 * Returns a row for each inference of a capture with a prediction. Returns no rows for error replies, captures without
 * reply or id, vectors, bytes, and predictions that cannot be assigned to an inference. It does not throw for any
 * capture that `decodeLine` returns, and takes time in proportion to its size.
 *
 * @param endpointName the endpoint, if the key does not name it
 */
export const predictionRows = (
  capture: Capture,
  traceId: string,
  { key, endpointName }: Pick<LinePlace, 'key'> & { endpointName: string },
  settings: GroundTruthSettings,
): PredictionRow[] => {
  const { endpoint = endpointName, variant = '' } = capturePathOf(key);
  const call = { endpoint, variant, second: Math.floor(capture.inferenceTimeMs / 1000), traceId };
  return ofContent(capture, 'predictions', () => rowsOf(capture, call, { ...settings, unmask: capture.unmask }));
};

type Settings = GroundTruthSettings & Pick<Capture, 'unmask'>;
type Call = Pick<PredictionRow, 'endpoint' | 'variant' | 'second' | 'traceId'>;

function rowsOf(capture: Capture, call: Call, settings: Settings): PredictionRow[] {
  const { inferenceId: id, inferences, inferenceCount = 1, error, format } = capture;
  if (capture.inferenceMismatch !== undefined || capture.unclear) return [];
  if (id === undefined || id.length > MAX_ID_CHARS || error !== undefined || format === 'embedding') return [];
  // An impossible time of the file, in place of the capture's.
  if (!(Math.abs(capture.inferenceTimeMs) <= LAST_MS)) return [];
  if (inferences === undefined) {
    const prediction = ofReply(capture, settings);
    const request = documentOf(capture.request);
    return prediction === undefined ? [] : [{ id, ...call, prediction, ...groupsOf(request, settings) }];
  }
  const isText = capture.conversation !== undefined;
  const rows: PredictionRow[] = [];
  for (const { inferenceId, index, features, prediction: reply } of inferences) {
    const prediction = isText
      ? ofText(Array.isArray(reply) ? reply[0] : reply, settings)
      : predictionOf(reply, settings);
    if (prediction === undefined) continue;
    const row: PredictionRow = { id: inferenceId, ...call, prediction, ...groupsOf(features, settings) };
    if (inferenceCount > 1) row.row = index;
    rows.push(row);
  }
  return rows;
}

function ofReply(capture: Capture, settings: Settings): Prediction | undefined {
  const { conversation, response, wireFormat } = capture;
  if (!isThere(response) || response.kind === 'binary') return undefined;
  if (conversation !== undefined) {
    const [reply] = conversation.replies;
    const fromText = reply && ofText(messageText(reply) || (toJson(reply.tool_calls) ?? ''), settings);
    if (wireFormat !== questionAnswering.name) return fromText;
    // A short answer is also a class with its score.
    return { ...predictionOf(documentOf(response), settings), ...fromText };
  }
  const document = documentOf(response);
  return document === undefined ? ofText(response.text, settings) : predictionOf(document, settings, response.text);
}

/** A reply that is text is compared as a text, unless the settings ask for a class or a number, or for a field of its JSON. */
function ofText(text: unknown, settings: Settings): Prediction | undefined {
  if (typeof text !== 'string') return undefined;
  const { kind, prediction, probability } = settings;
  const namesField = (prediction ?? probability) !== undefined;
  if (namesField && text.length <= MAX_DOCUMENT_CHARS && text.trimStart().startsWith('{')) {
    const parsed = parseJson(text);
    const found = parsed.ok ? predictionOf(parsed.value, settings) : undefined;
    if (found !== undefined && found.text === undefined) return found;
  }
  return kind === 'classes' || kind === 'numbers'
    ? predictionOf(text, settings)
    : { text: textHashes(text, settings.unmask) };
}

function groupsOf(features: unknown, { groups }: GroundTruthSettings): Pick<PredictionRow, 'groups'> {
  if (groups.length === 0) return {};
  const row = isObject(features) ? features : {};
  const textAt = (name: string): string | null => {
    const text = Object.hasOwn(row, name) ? asText(row[name]) : undefined;
    return text === undefined ? null : cut(text, MAX_GROUP_CHARS);
  };
  return { groups: groups.map(textAt) };
}
