/**
 * Reads which objectives are missed, since when, and when that changed: from the detectors, and for true answers from
 * the newest window.
 */
import { hash } from 'node:crypto';
import type { Work } from '../core/aws/storage.ts';
import { areaOf, workKeys } from '../core/contract/work-keys.ts';
import { inOrder } from '../core/process/concurrency.ts';
import { hourMs, type TimeWindow } from './counts-store.ts';
import { parseState } from './detectors.ts';

/** An objective became missed, or met again. It is kept as long as the counts. */
export interface Change {
  /** The objective's id. */
  objective: string;
  isMissed: boolean;
  /** Epoch seconds: of the first inference that shows it, and of the last one, by which it was noticed. */
  since: number;
  second: number;
}

const DIGEST_CHARS = 12;
const READS_AT_ONCE = 16;
/** Maximum number of changes that are read, the latest of a window. A person would not look at more. */
const MAX_CHANGES = 1_000;

/** Stores a change. Storing it again has no effect. */
export async function keepChange({ storage, workBucket }: Work, change: Change): Promise<void> {
  const digest = hash('sha256', `${change.objective} ${change.isMissed}`).slice(0, DIGEST_CHARS);
  await storage.putJson(workBucket, workKeys.change(change.second, digest), change);
}

/**
 * Returns the changes that inferences of a window triggered, in order. Changes for true answers are the corrected ones.
 */
export async function readChanges(work: Work, { fromMs, toMs }: TimeWindow): Promise<Change[]> {
  const { storage, workBucket: bucket } = work;
  const [from, to] = [fromMs, toMs].map((ms) => workKeys.change(Math.ceil(ms / 1000), '')) as [string, string];
  const keys: string[] = [];
  for await (const { key } of storage.list(bucket, workKeys.changesPrefix, from)) {
    if (key >= to) break;
    keys.push(key);
  }
  const read = (key: string) => storage.getJson<Change>(bucket, key);
  const changes = await Array.fromAsync(inOrder(READS_AT_ONCE, keys.slice(-MAX_CHANGES), read));
  for await (const { key } of storage.list(bucket, areaOf('measured'))) {
    const { objective, turns } = (await storage.getJson<TrueMeasurement>(bucket, key)) ?? { objective: '', turns: [] };
    const asked = turns.filter(({ second }) => second * 1000 >= fromMs && second * 1000 < toMs);
    changes.push(...asked.map((turn) => ({ objective, ...turn })));
  }
  return changes.filter((change) => change !== undefined).toSorted((a, b) => a.second - b.second);
}

/** The measurement for an objective for true answers with the latest window, and the changes until then. */
export interface TrueMeasurement {
  objective: string;
  /** The hours of inference that it is of, exclusive of the last. */
  from: string;
  end: string;
  /** Labelled predictions. */
  rows: number;
  value: number;
  low: number | null;
  high: number | null;
  /** `null` if the figure cannot decide, for the reason in `why`. */
  missed: boolean | null;
  why?: string;
  /** Time of its last change; 0 if it never was missed. */
  since: number;
  /**
   * The changes in order. `since`: the beginning of the first missed window, or the end of the first met window;
   * `second`: the window's end.
   */
  turns: Omit<Change, 'objective'>[];
}

type Measured = Omit<TrueMeasurement, 'since' | 'turns'>;

const secondOf = (hour: string): number => hourMs(hour) / 1000;

/** Keeps a measurement: of the newest window as the state, of an older one as a correction of the changes. @returns the state */
export async function keepMeasurement(work: Work, measured: Measured): Promise<TrueMeasurement> {
  const before = await readMeasurement(work, measured.objective);
  const newest = before !== undefined && before.end > measured.end ? before : measured;
  const turns = corrected(before?.turns ?? [], measured, secondOf(newest.end));
  const state = { ...newest, since: turns.at(-1)?.since ?? 0, turns };
  await work.storage.putJson(work.workBucket, workKeys.measured(measured.objective), state);
  return state;
}

/** Corrects changes by a measurement. Windows that do not overlap its hours are unchanged. */
function corrected(turns: TrueMeasurement['turns'], { from, end, missed }: Measured, last: number) {
  const second = secondOf(end);
  const length = second - secondOf(from);
  const isMissedBy = (at: number): boolean => turns.findLast((turn) => turn.second <= at)?.isMissed ?? false;
  if (missed === null || isMissedBy(second) === missed) return turns;
  const turnAt = (at: number, isMissed: boolean) => ({ isMissed, since: isMissed ? at - length : at, second: at });
  const own = isMissedBy(second - 1) === missed ? [] : [turnAt(second, missed)];
  const later = turns.filter((turn) => turn.second > second);
  const back = Math.min(second + length, last);
  if (later[0] !== undefined && later[0].second <= back) later.shift();
  else if (back > second) later.unshift(turnAt(back, !missed));
  return [...turns.filter((turn) => turn.second < second), ...own, ...later].slice(-MAX_CHANGES);
}

export const readMeasurement = ({ storage, workBucket }: Work, objective: string) =>
  storage.getJson<TrueMeasurement>(workBucket, workKeys.measured(objective));

/** Whether an objective is missed, and since when, epoch seconds. */
type ObjectiveStatus = Pick<Change, 'isMissed' | 'since'>;

/** Returns the state of each objective whose captures the detectors have seen, by id. */
export async function readDetectors({ storage, workBucket }: Work): Promise<Map<string, ObjectiveStatus>> {
  const stored = await storage.getText(workBucket, workKeys.detectors);
  const { objectives = {} } = (stored && parseState(stored.text)) ?? {};
  const states = Object.entries(objectives);
  return new Map(states.map(([id, { said }]) => [id, { isMissed: said.isMissed, since: said.since }]));
}
