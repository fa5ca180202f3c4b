/** Which objectives are missed, since when, and when that changed: by the detectors' state, and for true answers by the newest measurement. */
import { hash } from 'node:crypto';
import type { Storage } from '../core/aws/storage.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { inOrder } from '../core/process/concurrency.ts';
import type { TimeWindow } from './counts-store.ts';
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
/** More than a person looks at. The latest ones of a window are read. */
const MAX_CHANGES = 1_000;

/** Keeps a change. The same again changes nothing. */
export async function keepChange(storage: Storage, bucket: string, change: Change): Promise<void> {
  const digest = hash('sha256', `${change.objective} ${change.isMissed}`).slice(0, DIGEST_CHARS);
  await storage.putJson(bucket, workKeys.change(change.second, digest), change);
}

/** Returns the changes that were noticed by inferences of a window, in their order. */
export async function readChanges(storage: Storage, bucket: string, { fromMs, toMs }: TimeWindow): Promise<Change[]> {
  const [from, to] = [fromMs, toMs].map((ms) => workKeys.change(Math.ceil(ms / 1000), '')) as [string, string];
  const keys: string[] = [];
  for await (const { key } of storage.list(bucket, workKeys.changesPrefix, from)) {
    if (key >= to) break;
    keys.push(key);
  }
  const read = (key: string) => storage.getJson<Change>(bucket, key);
  const changes = await Array.fromAsync(inOrder(READS_AT_ONCE, keys.slice(-MAX_CHANGES), read));
  return changes.filter((change) => change !== undefined);
}

/** The newest measurement of an objective for true answers. */
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
  missed: boolean;
  /** Epoch seconds: the end of the first window that was measured like this. */
  since: number;
}

/** Keeps a measurement in place of the one before, and the change if there is one. */
export async function keepMeasurement(storage: Storage, bucket: string, measured: Omit<TrueMeasurement, 'since'>) {
  const { objective, missed, end } = measured;
  const key = workKeys.measured(objective);
  const before = await storage.getJson<TrueMeasurement>(bucket, key);
  const second = Date.parse(`${end}:00:00Z`) / 1000;
  const isChange = missed !== (before?.missed ?? false);
  if (isChange) await keepChange(storage, bucket, { objective, isMissed: missed, since: second, second });
  await storage.putJson(bucket, key, { ...measured, since: isChange ? second : (before?.since ?? second) });
}

export const readMeasurement = (storage: Storage, bucket: string, objective: string) =>
  storage.getJson<TrueMeasurement>(bucket, workKeys.measured(objective));

/** Whether an objective is missed, and since when, epoch seconds. */
export type ObjectiveStatus = Pick<Change, 'isMissed' | 'since'>;

/** Returns what the detectors say of the objectives that they have seen captures of, by id. */
export async function readDetectors(storage: Storage, bucket: string): Promise<Map<string, ObjectiveStatus>> {
  const stored = await storage.getText(bucket, workKeys.detectors);
  const { objectives = {} } = (stored && parseState(stored.text)) ?? {};
  const states = Object.entries(objectives);
  return new Map(states.map(([id, { said }]) => [id, { isMissed: said.isMissed, since: said.since }]));
}
