/**
 * Looks at the metadata of a capture line without parsing its payloads: `eventMetadata` stands at the end of the lines
 * that SageMaker writes, so its tail alone is parsed. 20,000 lines are indexed in the time that 2,000 are parsed in.
 */

import { parseInferenceTime } from '../../capture/inference-time.ts';
import { NestedTooDeep, parseJson } from '../json.ts';

export interface EventMetadata {
  eventId?: string;
  inferenceId?: string;
  inferenceTime?: string | number;
  customAttributes?: unknown;
}

/** What the index needs to know of a line. */
export type Peek =
  | { kind: 'record'; timeMs: number; metadata: EventMetadata }
  | { kind: 'skipped'; reason: string; message: string };

const METADATA_KEY = Buffer.from('"eventMetadata"');
/** Marks of a request that a replay has sent. */
export const REPLAY_ID_PREFIX = 'replay-';
const REPLAY_ID = new RegExp(`^${REPLAY_ID_PREFIX}[0-9a-f]{32}$`);
export const REPLAY_RUN_ATTRIBUTE = 'replay_run';

/** The metadata of a line that ends as SageMaker writes it; `undefined` means that the whole line has to be parsed. */
function tailMetadata(line: Buffer): EventMetadata | undefined {
  const at = line.lastIndexOf(METADATA_KEY);
  if (at < 0) return undefined;
  try {
    // Inside a payload the quotes are escaped, so this is a key of the record itself; a nested one would leave a brace over.
    const tail = parseJson(`{${line.toString('utf8', at)}`) as { eventMetadata?: EventMetadata };
    return isObject(tail.eventMetadata) ? tail.eventMetadata : undefined;
  } catch {
    return undefined;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Why a line is no record. */
export function notJson(error: unknown): { reason: string; message: string } {
  const { message } = error as Error;
  return error instanceof NestedTooDeep
    ? { reason: error.name, message: `The line is not taken apart: ${message}` }
    : { reason: 'NotJson', message: `The line is not JSON: ${message}` };
}

function wholeMetadata(line: Buffer): EventMetadata | { reason: string; message: string } {
  let record: unknown;
  try {
    record = parseJson(line.toString('utf8'));
  } catch (error) {
    return notJson(error);
  }
  if (!isObject(record) || !isObject(record.captureData)) {
    return { reason: 'NotACaptureRecord', message: 'The line is JSON, but no capture record: it has no captureData' };
  }
  return isObject(record.eventMetadata) ? record.eventMetadata : {};
}

const REPLAY_MARK = Buffer.from(`${REPLAY_RUN_ATTRIBUTE}=`);

/**
 * Whether a request was itself sent by a replay: by its inference id, or by its custom attributes, which writers of
 * captures put in several places. A prompt that speaks of replays is none.
 */
function sentByReplay(line: Buffer, metadata: EventMetadata): boolean {
  if (typeof metadata.inferenceId === 'string' && REPLAY_ID.test(metadata.inferenceId)) return true;
  if (!line.includes(REPLAY_MARK)) return false;
  let record: unknown;
  try {
    record = parseJson(line.toString('utf8'));
  } catch {
    return false;
  }
  const data = isObject(record) && isObject(record.captureData) ? record.captureData : {};
  const places = [record, metadata, data.endpointInput, data.endpointOutput].filter(isObject);
  return places.some((place) => JSON.stringify(place.customAttributes ?? '').includes(`${REPLAY_RUN_ATTRIBUTE}=`));
}

/**
 * Captured time and identity of one line.
 *
 * @param needsTime without it, a record that has no readable time is kept, with NaN for its time.
 */
export function peekLine(line: Buffer, needsTime: boolean): Peek {
  const metadata = tailMetadata(line) ?? wholeMetadata(line);
  if ('reason' in metadata) return { kind: 'skipped', ...(metadata as { reason: string; message: string }) };
  if (sentByReplay(line, metadata)) {
    return { kind: 'skipped', reason: 'SentByReplay', message: 'The request was sent by an earlier replay' };
  }
  const { inferenceTime } = metadata;
  // As the pipeline reads it: `Date.parse` would take a time without an offset for this machine's own.
  const timeMs = parseInferenceTime(inferenceTime) ?? Number.NaN;
  if (Number.isNaN(timeMs) && needsTime) {
    return {
      kind: 'skipped',
      reason: 'NoInferenceTime',
      message: `The record has no readable inferenceTime, so it has no place in the schedule; got: ${JSON.stringify(inferenceTime) ?? 'nothing'}`,
    };
  }
  return { kind: 'record', timeMs, metadata };
}
