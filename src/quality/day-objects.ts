/**
 * The objects of a day of counts: a small one for each run, one with a line for each run that is merged, and for a day that has
 * ended the sum of these lines.
 */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { removeObject } from '../core/aws/remove-object.ts';
import type { Storage } from '../core/aws/storage.ts';
import { notS3, parsedLines } from '../core/aws/storage-errors.ts';
import type { QualityCounts } from '../core/contract/quality.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { forEachConcurrently, inOrder } from '../core/process/concurrency.ts';
import { sumHours } from './cell.ts';

const [pack, unpack] = [promisify(gzip), promisify(gunzip)];

/** Requests in flight. */
const AT_ONCE = 16;

/** What a run has done to the counts of a day. */
export interface RunCounts {
  run: string;
  /** When the run was summed up, ISO 8601. */
  at: string;
  /** The hours of the day. */
  hours: QualityCounts;
}

/**
 * Merges the small objects of a day into one if there are many, a line for each run: not a sum, so that a run that is
 * summarized again replaces its own counts. Another run that does so at the same time wins, or loses.
 *
 * @returns how many small objects there were; the merged day, if there are none any more
 */
export async function mergeDay(
  storage: Storage,
  bucket: string,
  day: string,
  mergeFrom: number,
): Promise<{ found: number; merged?: Awaited<ReturnType<typeof readDay>> }> {
  const keys = await Array.fromAsync(storage.list(bucket, workKeys.newCountsOf(day)), ({ key }) => key);
  const found = keys.length;
  if (found < mergeFrom) return { found };
  const { runs, etag: before } = await readDay(storage, bucket, day, keys);
  if (found === 0) return { found, merged: { runs, etag: before } };
  const lines = Array.from(runs(), (one) => `${JSON.stringify(one)}\n`).join('');
  const content = { body: await pack(lines), type: 'application/gzip' };
  const etag = await storage.putIf(bucket, workKeys.dayCounts(day), content, before);
  if (etag === undefined) return { found };
  // A key names its content and its time, so each of these is what was read.
  await forEachConcurrently(AT_ONCE, keys, (key) => removeObject(storage, bucket, key));
  return { found, merged: { runs, etag } };
}

/** Reads a day: the small objects first, since those that another run merges in between are then in the merged one. */
async function readDay(storage: Storage, bucket: string, day: string, keys: Iterable<string> | AsyncIterable<string>) {
  const small = new Map<string, RunCounts>();
  const read = (key: string) => storage.getJson<RunCounts>(bucket, key);
  for await (const one of inOrder(AT_ONCE, keys, read)) {
    if (one !== undefined && (small.get(one.run)?.at ?? '') <= one.at) small.set(one.run, one);
  }
  const key = workKeys.dayCounts(day);
  const merged = await readPacked<RunCounts>(storage, bucket, key);
  /** Yields each run once. */
  const runs = function* (): Generator<RunCounts> {
    const left = new Map(small);
    for (const one of merged?.lines() ?? []) {
      const later = left.get(one.run);
      if (later !== undefined && later.at > one.at) continue;
      left.delete(one.run);
      yield one;
    }
    yield* left.values();
  };
  /** `etag`: of the merged object. */
  return { runs, etag: merged?.etag };
}

/** Reads a compressed object of lines, which are parsed one after the other: a day has up to some 25 MB of them. */
async function readPacked<T>(storage: Storage, bucket: string, key: string) {
  const stored = await storage.getBytes(bucket, key);
  if (stored === undefined) return undefined;
  const where = `s3://${bucket}/${key}`;
  const text = await unpack(stored.bytes).catch(() => {
    throw notS3(`${stored.bytes.length} bytes that are not gzip`, where);
  });
  return { lines: () => parsedLines<T>(text, where), etag: stored.etag };
}

/** The form of a day's name. */
const DAY = '2026-11-20';

/** A day that has counts. */
export interface CountedDay {
  day: string;
  /** Runs have written counts that are not merged. */
  hasNew: boolean;
  /** The key of the sum over all runs, if it has all that is merged. */
  sum?: string | undefined;
}

/** Returns the days that have counts, in order. The small objects are listed first, as in `readDay`. */
export async function daysWithCounts(storage: Storage, bucket: string): Promise<CountedDay[]> {
  const { dayCountsPrefix, newCountsPrefix, daySumsPrefix } = workKeys;
  const nameOf = (key: string, prefix: string): string => key.slice(prefix.length, prefix.length + DAY.length);
  const fresh = new Set<string>();
  const small = storage.list(bucket, newCountsPrefix);
  for (let next = await small.next(); !next.done; ) {
    const day = nameOf(next.value.key, newCountsPrefix);
    fresh.add(day);
    // Behind every run of the day.
    next = await small.next(`${workKeys.newCountsOf(day)}\uffff`);
  }
  const etags = new Map<string, string>();
  for await (const { key, etag } of storage.list(bucket, dayCountsPrefix))
    etags.set(nameOf(key, dayCountsPrefix), etag);
  const sums = new Set(await Array.fromAsync(storage.list(bucket, daySumsPrefix), ({ key }) => key));
  return [...new Set([...fresh, ...etags.keys()])].toSorted().map((day) => {
    const sum = workKeys.daySum(day, etags.get(day) ?? '');
    return { day, hasNew: fresh.has(day), sum: sums.has(sum) ? sum : undefined };
  });
}

/** Reads what each run has done to a day. */
export async function runsOf(storage: Storage, bucket: string, day: string): Promise<Iterable<RunCounts>> {
  const names = async function* () {
    for await (const { key } of storage.list(bucket, workKeys.newCountsOf(day))) yield key;
  };
  return (await readDay(storage, bucket, day, names())).runs();
}

// ------------------------------------------------------------------------------------------------- sums of old days
// The sum over the runs of a day that has ended is read in a thousandth of the time. It names the ETag of the merged object that
// it is of: if counts came since, it is not read until the day is merged and summed again.

/** Few runs touch a day that ended longer ago: backfills, retries, and captures that came late. */
const CLOSED_AFTER_MS = 3 * 86_400_000;
/** Whether a day ended so long ago that its sum is kept. */
export const isClosed = (day: string, nowMs: number): boolean => Date.parse(day) + CLOSED_AFTER_MS <= nowMs;

/** More of them wait for a later run. Each takes up to some seconds. */
const CLOSED_AT_ONCE = 5;

/** The line of all runs. */
type SummedDay = Pick<RunCounts, 'hours'>;

/** Merges and sums days that ended at least two days ago, the latest ones first. */
export async function closeDays(storage: Storage, bucket: string, nowMs: number): Promise<void> {
  const isDue = ({ day, hasNew, sum }: CountedDay): boolean => isClosed(day, nowMs) && (hasNew || sum === undefined);
  const due = (await daysWithCounts(storage, bucket)).filter(isDue).slice(-CLOSED_AT_ONCE);
  for (const { day } of due.toReversed()) {
    const { merged } = await mergeDay(storage, bucket, day, 0);
    if (merged?.etag === undefined) continue;
    const summed: SummedDay = { hours: sumHours(merged.runs()) };
    const body = await pack(`${JSON.stringify(summed)}\n`);
    const key = workKeys.daySum(day, merged.etag);
    await storage.putBytes(bucket, key, { body, type: 'application/gzip' });
    for await (const { key: old } of storage.list(bucket, workKeys.daySumsOf(day)))
      if (old !== key) await removeObject(storage, bucket, old);
  }
}

/** Reads what all runs have done to a day together, or what each did. */
export async function readHours(
  storage: Storage,
  bucket: string,
  { day, hasNew, sum }: CountedDay,
): Promise<Iterable<{ hours: QualityCounts }>> {
  const stored = hasNew || sum === undefined ? undefined : await readPacked<SummedDay>(storage, bucket, sum);
  return stored?.lines() ?? runsOf(storage, bucket, day);
}
