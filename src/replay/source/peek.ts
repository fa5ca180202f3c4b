/**
 * Looks at the metadata of a capture line without parsing its payloads: `eventMetadata` stands at the end of the lines
 * that SageMaker writes, so its tail alone is parsed. 20,000 lines are indexed in the time that 2,000 are parsed in.
 */

import { isObject, type JsonObject, parseJson, toJson } from '../../formats/json.ts';
import { openEnvelope } from '../../formats/record/envelope.ts';
import { identityOf } from '../../formats/record/identity.ts';
import { parseInferenceTime } from '../../formats/record/inference-time.ts';
import type { QuarantineCause } from '../../formats/types.ts';
import { Scale } from '../../formats/weight.ts';

/** What the index needs to know of a line. */
export type Peek = { kind: 'record'; timeMs: number } | { kind: 'skipped'; reason: string; message: string };

const METADATA_KEY = Buffer.from('"eventMetadata"');
/** Marks of a request that a replay has sent. */
export const REPLAY_ID_PREFIX = 'replay-';
const REPLAY_ID = new RegExp(`^${REPLAY_ID_PREFIX}[0-9a-f]{32}$`);
export const REPLAY_RUN_ATTRIBUTE = 'replay_run';
const REPLAY_MARK = Buffer.from(REPLAY_RUN_ATTRIBUTE);

/** The metadata of a line that ends as SageMaker writes it; `undefined` means that the whole line has to be parsed. */
function tailMetadata(line: Buffer): JsonObject | undefined {
  const at = line.lastIndexOf(METADATA_KEY);
  if (at < 0) return undefined;
  // Inside a payload the quotes are escaped, so this is a key of the record itself; a nested one would leave a brace over.
  const tail = parseJson(`{${line.toString('utf8', at)}`);
  const metadata = tail.ok && isObject(tail.value) ? tail.value.eventMetadata : undefined;
  return isObject(metadata) ? metadata : undefined;
}

/**
 * Whether a request was itself sent by a replay: by its inference id, or by its custom attributes. A prompt that speaks of
 * replays is none.
 */
function sentByReplay(line: Buffer, metadata: JsonObject): boolean {
  if (typeof metadata.inferenceId === 'string' && REPLAY_ID.test(metadata.inferenceId)) return true;
  if (!line.includes(REPLAY_MARK)) return false;
  const opened = openEnvelope(line, new Scale());
  return (
    'envelope' in opened &&
    identityOf(opened.envelope.record, opened.envelope.eventMetadata, undefined).replayRun !== undefined
  );
}

export const skippedAs = ({ name, message }: QuarantineCause) => ({ kind: 'skipped', reason: name, message }) as const;

/**
 * Captured time of one line.
 *
 * @param needsTime without it, a record that has no readable time is kept, with NaN for its time.
 * @throws TooHeavy
 */
export function peekLine(line: Buffer, needsTime: boolean): Peek {
  let metadata = tailMetadata(line);
  if (metadata === undefined) {
    const opened = openEnvelope(line, new Scale());
    if ('reason' in opened) return skippedAs(opened.reason);
    metadata = opened.envelope.eventMetadata;
  }
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
      message: `The record has no readable inferenceTime, so it has no place in the schedule; got: ${toJson(inferenceTime)?.slice(0, 200) ?? 'nothing'}`,
    };
  }
  return { kind: 'record', timeMs };
}
