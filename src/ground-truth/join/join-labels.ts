/** The step of a run that joins the labels that wait to their predictions, group by group. */

import { DAY_MS } from '../../captures/files/capture-path.ts';
import { parseStored } from '../../core/aws/storage-errors.ts';
import type { Label, LabeledRow, LabelFileReport, PredictionRow } from '../../core/contract/ground-truth.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { forEachConcurrently, inOrder } from '../../core/process/concurrency.ts';
import { listFiles } from '../../ledger/files.ts';
import { hourOf } from '../../quality/tally.ts';
import { readLabels } from '../labels/read-labels.ts';
import { digestOf, listSegments, readSegment, settleSegment, type WaitingSegment } from '../labels/waiting.ts';
import { comparable, isSameForm, labelForms, type MaskSettings } from '../masked.ts';
import { STEP_RESERVE_MS, type StepDependencies, type StepResult } from '../types.ts';
import {
  applyLabel,
  type HourOutcomes,
  hourOutcomes,
  isAboutSame,
  type LabelGroup,
  labeledRow,
  labelGroup,
  rowKey,
  type Waiting,
} from './label-group.ts';
import { type HourDraft, rewriteHour } from './labeled-store.ts';
import { readIds, readPredictions } from './read-predictions.ts';

// --------------------------------------------------------------------------------------------------------- a group
// First finds all predictions of its ids, then rewrites their hours.

const hasTime = ({ remainingMs }: StepDependencies): boolean => remainingMs() > STEP_RESERVE_MS;

/** Clocks differ, and an object gets its time before it can be listed. */
const CLOCK_MARGIN_MS = 900_000;

const HOUR_SECONDS = 3_600;
const hourAt = (second: number): number => Math.floor(second / HOUR_SECONDS);

/** The columns of ids that labels are compared with. */
const FOUND = ['id', 'hour', 'endpoint', 'time', 'maskedBy'] as const;

/**
 * Gives each label its outcome in all hours for which there is time: first finds all predictions of the labels' ids,
 * then rewrites their hours.
 *
 * @returns the last hour in which the labels have their outcomes; `undefined` if they have them in all hours
 */
async function joinGroup(group: LabelGroup, deps: StepDependencies): Promise<number | undefined> {
  let done = Number.NEGATIVE_INFINITY;
  const found = await findPredictions(group, deps);
  if (found === undefined) return done;
  for (const [hour, sources] of [...found.targets].toSorted(([a], [b]) => a - b)) {
    if (!hasTime(deps)) return done;
    const predictions = () => readPredictions(deps, found.files, sources, group.has);
    await joinHour(hour, predictions, group, deps);
    done = hour;
  }
  return undefined;
}

/** Finds the endpoint and the last hour of each label. @returns `undefined` if there is no time to compare all predictions */
async function findPredictions(group: LabelGroup, deps: StepDependencies) {
  const sinceMs = group.comparedMs() - CLOCK_MARGIN_MS;
  const listed = await Array.fromAsync(listFiles(deps, 'ids/inferences'));
  /** Files of ids that were written since the group was compared. */
  const files = listed.filter(({ lastModifiedMs }) => lastModifiedMs >= sinceMs);
  /**
   * Hours since 1970 of predictions, with the hours of the ledger that contain them. They differ if a call had no
   * credible time.
   */
  const targets = new Map<number, Set<string>>();
  for (const ofDay of Map.groupBy(files, ({ day }) => day).values()) {
    if (!hasTime(deps)) return undefined;
    for await (const { id = '', ...row } of readIds(deps, ofDay, group.has, FOUND)) {
      if (!hasTime(deps)) return undefined;
      const { endpoint = '', time = 0, maskedBy: key } = row;
      const hour = hourAt(time / 1000);
      for (const label of group.of(id)) {
        if ((label.endpoint !== undefined && label.endpoint !== endpoint) || !isSameForm(label, { key })) continue;
        label.of = label.of === undefined || label.of === endpoint ? endpoint : null;
        if (label.lastHour === undefined || label.lastHour < hour) label.lastHour = hour;
        targets.set(hour, (targets.get(hour) ?? new Set()).add(row.hour ?? ''));
      }
    }
  }
  return { files, targets };
}

async function joinHour(
  at: number,
  predictions: () => AsyncIterable<PredictionRow>,
  group: LabelGroup,
  deps: StepDependencies,
): Promise<void> {
  const { storage, workBucket, environment: settings } = deps;
  const hour = hourOf(at * HOUR_SECONDS * 1000);
  let outcomes = hourOutcomes();
  const change = async function* (draft: HourDraft): AsyncGenerator<LabeledRow> {
    outcomes = hourOutcomes();
    const done = new Set<string>();
    for await (const row of draft.rows) {
      const labels = labelsFor(group, row).filter((label) => isAboutSame(label, row));
      const now = labels.length > 0 ? applied(comparable(row, settings), labels, outcomes, settings) : row;
      if (labels.length > 0) done.add(rowKey(row));
      draft.changed ||= now !== row;
      yield now;
    }
    for await (const prediction of predictions()) {
      if (hourAt(prediction.second) !== at) continue;
      const keyOf = ({ scorer, by }: Waiting): string => rowKey({ ...prediction, scorer, by });
      const fresh = Map.groupBy(labelsFor(group, prediction), keyOf);
      for (const [key, [first, ...labels]] of fresh) {
        if (first === undefined || done.has(key)) continue;
        outcomes.set(first, 'joined');
        draft.changed = true;
        yield applied(labeledRow(comparable(prediction, settings), first, settings), labels, outcomes, settings);
      }
    }
    draft.changed = outcomes.record(draft.settled) || draft.changed;
  };
  const etag = await rewriteHour(deps, hour, change);
  // Mark the hour even if it already had all labels: a killed function may have stopped right before this.
  if (etag !== undefined) await storage.putJson(workBucket, truthKeys.toPublish(hour, etag), {});
  outcomes.pass();
}

const labelsFor = (group: LabelGroup, row: Pick<PredictionRow, 'id' | 'endpoint' | 'key'>): Waiting[] =>
  group.of(row.id).filter((label) => label.of === row.endpoint && isSameForm(label, row));

function applied(
  row: LabeledRow,
  labels: readonly Waiting[],
  outcomes: HourOutcomes,
  settings: MaskSettings,
): LabeledRow {
  let now = row;
  for (const label of labels) {
    const next = applyLabel(now, label, settings);
    now = next.row;
    outcomes.set(label, next.outcome);
  }
  return now;
}

// -------------------------------------------------------------------------------------------------------- the step

/** A group is in memory: with short ids, some 60 MB. */
const GROUP_LABELS = 200_000;
const GROUP_CHARS = 32 * 1024 * 1024;
const GROUP_SEGMENTS = 1_000;
/** Segments that are read or written at the same time; the labels of as many more are in memory. */
const AT_ONCE = 4;
/** The first attempt at a group may have begun late. */
const MOST_ATTEMPTS = 2;

/** The last segment of the groups that are done, and the number of attempts at the next group that settled no label. */
const BEGIN = { after: '', attempts: 0 };

/**
 * Joins labels for as long as there is time. Labels that find no prediction wait on, or are `unknown` when they are older than ids are
 * kept.
 *
 * @throws PermanentError `TooManyPredictions` if one invocation cannot compare a group with all predictions; errors of the
 *   storage
 *
 * @example
 *     let { cursor } = await joinLabels(null, deps);
 *     while (cursor !== null) ({ cursor } = await joinLabels(cursor, deps));
 */
export async function joinLabels(cursor: string | null, deps: StepDependencies): Promise<StepResult> {
  const { environment, workBucket } = deps;
  let at = cursor === null ? BEGIN : parseStored<typeof BEGIN>(cursor, 'the cursor of a join');
  for (;;) {
    const startMs = Date.now();
    const segments = await nextGroup(deps, at.after);
    const last = segments.at(-1);
    if (last === undefined) return { cursor: null };
    const group = labelGroup(segments.filter(({ labels }) => labels.length > 0));
    const done = await joinGroup(group, deps);
    const isDone = done === undefined;
    const outcomes = group.outcomes(done, startMs - environment.GROUND_TRUTH.days * DAY_MS);
    await forEachConcurrently(AT_ONCE, segments, ({ name }) =>
      settleSegment(deps, name, outcomes.get(name) ?? new Map(), isDone ? startMs : undefined),
    );
    const settled = [...outcomes.values()].some(({ size }) => size > 0);
    if (isDone) at = { after: last.name, attempts: 0 };
    else at = { after: at.after, attempts: settled ? 0 : at.attempts + 1 };
    if (at.attempts === MOST_ATTEMPTS) {
      const facts = { expected: 'a lower GROUND_TRUTH.days, or a longer timeout', where: `s3://${workBucket}/` };
      const what = 'One invocation cannot compare labels with all predictions';
      throw new PermanentError('TooManyPredictions', what, facts);
    }
    if (!isDone || !hasTime(deps)) return { cursor: JSON.stringify(at) };
  }
}

async function nextGroup(deps: StepDependencies, after: string): Promise<WaitingSegment[]> {
  const segments: WaitingSegment[] = [];
  let [labels, chars] = [0, 0];
  const read = async (name: string) => {
    const segment = await readSegment(deps, name);
    return segment && { ...segment, labels: await formsOfSegment(segment, deps) };
  };
  for await (const segment of inOrder(AT_ONCE, listSegments(deps, after), read)) {
    if (segment === undefined) continue;
    segments.push(segment);
    labels += segment.labels.length;
    for (const { id, value } of segment.labels) chars += id.length + String(value).length;
    if (labels >= GROUP_LABELS || chars >= GROUP_CHARS || segments.length >= GROUP_SEGMENTS) break;
  }
  return segments;
}

/**
 * Reads the labels of a segment again from their file, so that a masked label can be compared with predictions under
 * other keys, or without a key. A label whose file was deleted or overwritten keeps its form.
 *
 * @returns the labels, and masked labels in each form of predictions
 */
async function formsOfSegment({ name, labels }: WaitingSegment, deps: StepDependencies): Promise<Label[]> {
  const { storage, workBucket, environment } = deps;
  const masked = new Set(labels.flatMap(({ key, line }) => (key === undefined ? [] : [line])));
  if (masked.size === 0 || environment.redaction === undefined) return labels;
  const report = await storage.getJson<LabelFileReport>(workBucket, truthKeys.file(digestOf(name)));
  const facts = report && (await storage.head(report.bucket, report.key));
  if (facts === undefined || facts.etag !== report?.etag) return labels;
  const forms: Label[] = labels.filter(({ line }) => !masked.has(line));
  const file = { name: facts.key, timeMs: facts.lastModifiedMs };
  for await (const item of readLabels(await storage.read(facts), file, environment.GROUND_TRUTH)) {
    if ('id' in item && masked.has(item.line)) forms.push(...labelForms(item, environment));
  }
  return forms;
}
