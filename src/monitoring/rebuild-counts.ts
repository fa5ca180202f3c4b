/** Makes the counts anew from the receipts of the runs, and says where the counts in the work bucket differed. */
import { hash } from 'node:crypto';
import type { Storage } from '../core/aws/storage.ts';
import type { QualityCounts } from '../core/contract/quality.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { PipelineError } from '../core/errors/errors.ts';
import { forEachConcurrently } from '../core/process/concurrency.ts';
import { dayOf, daysWithCounts, readCounts, writeCounts } from '../quality/counts-store.ts';
import { RunSums } from '../quality/run-sums.ts';
import { qualityOfChunk } from './chunk-quality.ts';
import { readChunks } from './receipts.ts';

/** Runs that are read at the same time. Each has requests of its own in flight. */
const RUNS_AT_ONCE = 4;

/** What is known of the counts of a run on a day, without the counts themselves. */
interface DayFacts {
  digest: string;
  captures: number;
  verdicts: number;
}

export interface CountsDifference {
  run: string;
  day: string;
  /** Captures and verdicts; absent where there were no counts. */
  before?: Pick<DayFacts, 'captures' | 'verdicts'>;
  after?: Pick<DayFacts, 'captures' | 'verdicts'>;
}

export interface RebuiltCounts {
  /** Runs whose receipts were read. */
  runs: number;
  differences: CountsDifference[];
  /** Runs that have counts, which are kept, but whose receipts are gone or incomplete: why, by run. */
  kept: Record<string, string>;
}

/**
 * @param isInside whether a day (UTC, such as `2026-11-20`) is to be rebuilt
 * @param writes `false`: only says what differs
 */
export async function rebuildCounts(
  storage: Storage,
  bucket: string,
  isInside: (day: string) => boolean,
  writes = true,
): Promise<RebuiltCounts> {
  const stored = new Map<string, Map<string, DayFacts>>();
  const days = (await daysWithCounts(storage, bucket)).filter(isInside);
  for await (const { run, day, hours } of readCounts(storage, bucket, days)) {
    const ofRun = stored.get(run) ?? new Map<string, DayFacts>();
    if (Object.keys(hours).length > 0) ofRun.set(day, factsOf(hours));
    stored.set(run, ofRun);
  }
  const result: RebuiltCounts = { runs: 0, differences: [], kept: {} };
  const seen = new Set<string>();
  await forEachConcurrently(RUNS_AT_ONCE, runsIn(storage, bucket), async (run) => {
    seen.add(run);
    const before = stored.get(run) ?? new Map<string, DayFacts>();
    // A run that ends from now on knows more, and its own counts are the later ones.
    const readMs = Date.now();
    const { counts, missing } = await countsFromReceipts(storage, bucket, run);
    if (missing !== undefined && before.size > 0) result.kept[run] = missing;
    if (missing !== undefined) return;
    result.runs += 1;
    const changed = differencesOfRun(run, before, counts, isInside);
    result.differences.push(...changed);
    if (!writes || changed.length === 0) return;
    const touched = new Set(changed.map(({ day }) => day));
    const hours = Object.entries(counts).filter(([hour]) => touched.has(dayOf(hour)));
    await writeCounts(storage, bucket, run, Object.fromEntries(hours), [...touched], readMs);
  });
  for (const [run, ofRun] of stored) if (!seen.has(run) && ofRun.size > 0) result.kept[run] = 'its receipts are gone';
  result.differences.sort((a, b) => (`${a.day} ${a.run}` < `${b.day} ${b.run}` ? -1 : 1));
  return result;
}

function differencesOfRun(
  run: string,
  before: ReadonlyMap<string, DayFacts>,
  counts: QualityCounts,
  isInside: (day: string) => boolean,
): CountsDifference[] {
  const byDay = Map.groupBy(
    Object.keys(counts).filter((hour) => isInside(dayOf(hour))),
    dayOf,
  );
  return [...new Set([...before.keys(), ...byDay.keys()])].flatMap((day) => {
    const hours = byDay.get(day);
    const after = hours && factsOf(Object.fromEntries(hours.map((hour) => [hour, counts[hour] ?? {}])));
    const old = before.get(day);
    if (old?.digest === after?.digest) return [];
    return [{ run, day, ...(old ? { before: shown(old) } : {}), ...(after ? { after: shown(after) } : {}) }];
  });
}

const shown = ({ captures, verdicts }: DayFacts) => ({ captures, verdicts });

/** Lists the runs that have left objects. */
async function* runsIn(storage: Storage, bucket: string): AsyncGenerator<string> {
  const all = workKeys.runPrefix('').slice(0, -1);
  const objects = storage.list(bucket, all);
  let last: string | undefined;
  for (let next = await objects.next(); !next.done; ) {
    const [run = ''] = next.value.key.slice(all.length).split('/');
    if (run !== last) yield run;
    last = run;
    next = await objects.next(`${workKeys.runPrefix(run)}\uffff`);
  }
}

/** @returns `missing`: why the receipts do not tell all that the run has done */
async function countsFromReceipts(
  storage: Storage,
  bucket: string,
  run: string,
): Promise<{ counts: QualityCounts; missing?: string }> {
  const sums = new RunSums();
  let [chunks, receipts, planned, without] = [0, 0, 0, 0];
  try {
    for await (const { line, state } of readChunks(storage, bucket, run)) {
      const isEmpty = state.evaluations.length === 0 && (state.log.done ?? state.log.failed) === undefined;
      chunks += 1;
      if (line !== undefined) planned += 1;
      if (isEmpty) without += 1;
      else receipts += 1;
      // A direct invocation has receipts without a plan.
      sums.add(qualityOfChunk(state));
    }
  } catch (error) {
    if (!(error instanceof PipelineError)) throw error;
    return { counts: {}, missing: `${error.name}: ${error.message}` };
  }
  const { counts } = sums;
  if (receipts === 0) return { counts, missing: 'its receipts are gone' };
  if (without > 0) return { counts, missing: `${without} of its ${chunks} chunks have no receipt` };
  const isOrphaned = planned === 0 && (await hasSummary(storage, bucket, run));
  return isOrphaned ? { counts, missing: 'its plan is gone' } : { counts };
}

const hasSummary = async (storage: Storage, bucket: string, run: string): Promise<boolean> =>
  (await storage.head(bucket, workKeys.summary(run))) !== undefined;

function factsOf(hours: QualityCounts): DayFacts {
  const cells = Object.values(hours).flatMap((variants) => Object.values(variants));
  const samples = cells.flatMap(({ scorers = {} }) => Object.values(scorers).flatMap((one) => Object.values(one)));
  const verdicts = samples.flatMap(({ values = {}, numbers = {} }) => [...Object.values(values), numbers.count ?? 0]);
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
  return {
    digest: hash('sha256', JSON.stringify(hours, inOrder)),
    captures: sum(cells.map(({ captures = 0 }) => captures)),
    verdicts: sum(verdicts),
  };
}

/** Digits that do not depend on the order in which numbers were added up. */
const DIGITS = 10;

/** A replacer of JSON that makes equal counts equal texts. */
function inOrder(_: string, value: unknown): unknown {
  if (typeof value === 'number') return Number(value.toPrecision(DIGITS));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
