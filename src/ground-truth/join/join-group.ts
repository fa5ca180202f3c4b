/** Joins a group of labels to the predictions of the index: first finds all predictions of their ids, then rewrites their hours. */

import type { Storage } from '../../core/aws/storage.ts';
import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import { truthKeys } from '../../core/contract/work-keys.ts';
import { hourOf } from '../../quality/tally.ts';
import { type IndexHour, listHours, readHour } from '../index/index-store.ts';
import { applyLabel, isAboutSame, labeledRow, OUTCOMES } from './apply-label.ts';
import { HourOutcomes, type LabelGroup, rowKey, type Waiting } from './label-group.ts';
import { type HourDraft, rewriteHour } from './labeled-store.ts';

interface JoinDependencies {
  storage: Storage;
  bucket: string;
  /** Whether there is time for more. */
  hasTime(): boolean;
}

/** Clocks differ, and an object gets its time before it can be listed. */
const CLOCK_MARGIN_MS = 900_000;

const HOUR_SECONDS = 3_600;
const hourAt = (second: number): number => Math.floor(second / HOUR_SECONDS);

/** Hours since 1970 of predictions, with the hours of the index that have them. They differ where a call had no credible time. */
type Targets = Map<number, Set<IndexHour>>;

/**
 * Gives each label its outcome in all hours for which there is time.
 *
 * @returns the hour up to which that is so; `undefined`: in all hours
 */
export async function joinGroup(group: LabelGroup, deps: JoinDependencies): Promise<number | undefined> {
  let done = Number.NEGATIVE_INFINITY;
  const targets = await findPredictions(group, deps);
  if (targets === undefined) return done;
  for (const [hour, sources] of [...targets].toSorted(([a], [b]) => a - b)) {
    if (!deps.hasTime()) return done;
    await joinHour(hour, sources, group, deps);
    done = hour;
  }
  return undefined;
}

/** Finds the endpoint and the last hour of each label. @returns `undefined` if there is no time to compare all predictions */
async function findPredictions(
  group: LabelGroup,
  { storage, bucket, hasTime }: JoinDependencies,
): Promise<Targets | undefined> {
  const sinceMs = group.comparedMs - CLOCK_MARGIN_MS;
  const targets: Targets = new Map();
  for await (const indexHour of listHours(storage, bucket)) {
    if (!hasTime()) return undefined;
    const newer = { hour: indexHour.hour, files: indexHour.files.filter((file) => file.lastModifiedMs >= sinceMs) };
    for await (const { id, endpoint, second } of readHour(storage, bucket, newer, group.has)) {
      if (!hasTime()) return undefined;
      const hour = hourAt(second);
      for (const label of group.of(id)) {
        if (label.endpoint !== undefined && label.endpoint !== endpoint) continue;
        label.of = label.of === undefined || label.of === endpoint ? endpoint : null;
        if (label.lastHour === undefined || label.lastHour < hour) label.lastHour = hour;
        const sources = targets.get(hour) ?? new Set();
        targets.set(hour, sources.add(newer));
      }
    }
  }
  return targets;
}

async function joinHour(
  at: number,
  sources: ReadonlySet<IndexHour>,
  group: LabelGroup,
  { storage, bucket }: JoinDependencies,
): Promise<void> {
  const hour = hourOf(at * HOUR_SECONDS * 1000);
  let outcomes = new HourOutcomes({});
  const change = async function* (draft: HourDraft): AsyncGenerator<LabeledRow> {
    outcomes = new HourOutcomes(draft.settled);
    const done = new Set<string>();
    for await (const row of draft.rows) {
      const labels = labelsFor(group, row).filter((label) => isAboutSame(label, row));
      const now = applied(row, labels, outcomes);
      if (labels.length > 0) done.add(rowKey(row));
      draft.changed ||= now !== row;
      yield now;
    }
    for (const source of sources) {
      for await (const prediction of readHour(storage, bucket, source, group.has)) {
        if (hourAt(prediction.second) !== at) continue;
        const fresh = Map.groupBy(labelsFor(group, prediction), (label) =>
          rowKey({ ...prediction, ...questionOf(label) }),
        );
        for (const [key, [first, ...labels]] of fresh) {
          if (first === undefined || done.has(key)) continue;
          done.add(key);
          outcomes.set(first, OUTCOMES.joined);
          draft.changed = true;
          yield applied(labeledRow(prediction, first), labels, outcomes);
        }
      }
    }
    draft.changed = outcomes.record() || draft.changed;
  };
  const etag = await rewriteHour(storage, bucket, hour, change);
  // Also if the hour had all labels already: this may have been what a killed function did last.
  if (etag !== undefined) await storage.putJson(bucket, truthKeys.toNote(hour, etag), {});
  outcomes.pass();
}

const questionOf = ({ scorer, by }: Waiting) => ({ scorer, by });

const labelsFor = (group: LabelGroup, { id, endpoint }: { id: string; endpoint: string }): Waiting[] =>
  group.of(id).filter((label) => label.of === endpoint);

function applied(row: LabeledRow, labels: readonly Waiting[], outcomes: HourOutcomes): LabeledRow {
  let now = row;
  for (const label of labels) {
    const next = applyLabel(now, label);
    now = next.row;
    outcomes.set(label, next.outcome);
  }
  return now;
}
