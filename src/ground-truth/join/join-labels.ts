/** The step of a run that joins the labels that wait to their predictions, group by group. */

import { parseStored } from '../../core/aws/storage-errors.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { forEachConcurrently, inOrder } from '../../core/process/concurrency.ts';
import { mergeHours } from '../index/index-store.ts';
import { STEP_RESERVE_MS, type StepDependencies, type StepResult } from '../types.ts';
import { joinGroup } from './join-group.ts';
import { LabelGroup } from './label-group.ts';
import { listParts, readPart, settlePart, type WaitingPart } from './waiting.ts';

/** A group is in memory: with short ids, some 60 MB. */
const GROUP_LABELS = 200_000;
const GROUP_CHARS = 32 * 1024 * 1024;
const GROUP_PARTS = 1_000;
/** Parts that are read or written at the same time; the labels of so many more are in memory. */
const AT_ONCE = 4;
const DAY_MS = 86_400_000;
/** The first attempt at a group may have begun late. */
const MOST_ATTEMPTS = 2;

interface Cursor {
  /** The last part of the groups that are done. */
  after: string;
  /** Attempts at the next group that settled nothing. */
  attempts: number;
}

/**
 * Merges the hours of the index that are over, and then joins labels for as long as there is time. Labels that find no prediction wait on, or are `unknown` when they are older than the
 * index is kept.
 *
 * @throws PermanentError `TooManyPredictions` if one invocation cannot compare a group with the index; errors of the storage
 */
export async function joinLabels(cursor: string | null, deps: StepDependencies): Promise<StepResult> {
  const { storage, environment } = deps;
  const bucket = environment.WORK_BUCKET;
  let at = cursor === null ? { after: '', attempts: 0 } : parseStored<Cursor>(cursor, 'the cursor of a join');
  const hasTime = (): boolean => deps.remainingMs() > STEP_RESERVE_MS;
  if (!(await mergeHours(storage, bucket, hasTime))) return { cursor: JSON.stringify(at) };
  for (;;) {
    const startMs = Date.now();
    const parts = await nextGroup(deps, at.after);
    const last = parts.at(-1);
    if (last === undefined) return { cursor: null };
    const group = new LabelGroup(parts.filter(({ labels }) => labels.length > 0));
    const done = await joinGroup(group, { storage, bucket, hasTime });
    const isDone = done === undefined;
    const outcomes = group.outcomes(done, startMs - environment.GROUND_TRUTH.days * DAY_MS);
    await forEachConcurrently(AT_ONCE, parts, ({ name }) =>
      settlePart(storage, bucket, name, outcomes.get(name) ?? new Map(), isDone ? startMs : undefined),
    );
    const settled = [...outcomes.values()].some(({ size }) => size > 0);
    if (isDone) at = { after: last.name, attempts: 0 };
    else at = { after: at.after, attempts: settled ? 0 : at.attempts + 1 };
    if (at.attempts === MOST_ATTEMPTS) {
      const facts = { expected: 'a lower GROUND_TRUTH.days, or a longer timeout', where: `s3://${bucket}/` };
      throw new PermanentError(
        'TooManyPredictions',
        'One invocation cannot compare labels with all predictions',
        facts,
      );
    }
    if (!isDone || !hasTime()) return { cursor: JSON.stringify(at) };
  }
}

async function nextGroup({ storage, environment }: StepDependencies, after: string): Promise<WaitingPart[]> {
  const bucket = environment.WORK_BUCKET;
  const parts: WaitingPart[] = [];
  let [labels, chars] = [0, 0];
  const read = (name: string) => readPart(storage, bucket, name);
  for await (const part of inOrder(AT_ONCE, listParts(storage, bucket, after), read)) {
    if (part === undefined) continue;
    parts.push(part);
    labels += part.labels.length;
    for (const { id, value } of part.labels) chars += id.length + String(value).length;
    if (labels >= GROUP_LABELS || chars >= GROUP_CHARS || parts.length >= GROUP_PARTS) break;
  }
  return parts;
}
