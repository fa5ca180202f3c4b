/**
 * The labeled predictions in the work bucket: an object for each hour (UTC) of the inferences. Its first line lists the
 * labels that the hour has had, and the other lines are rows. The two change together, so no label counts twice, even
 * if functions are killed or repeated.
 */
import { fitted } from '../../captures/trace/text.ts';
import type { Work } from '../../core/aws/storage.ts';
import { untilWritten } from '../../core/aws/until-written.ts';
import type { LabeledRow } from '../../core/contract/ground-truth.ts';
import { areaOf, truthKeys } from '../../core/contract/work-keys.ts';
import { RetryableError } from '../../core/errors/errors.ts';
import { forEachConcurrently, inOrder } from '../../core/process/concurrency.ts';
import { firstMet, readExcluded } from '../../ledger/excluded.ts';
import { GONE } from '../../ledger/files.ts';
import { gzipped } from '../gzip.ts';
import { type JoinOutcome, storedLines } from '../labels/waiting.ts';

/** The labels that an hour has had: by segment of a label file (see `labels/waiting.ts`), then by line, with their outcomes. */
export type Settled = Record<string, Record<number, JoinOutcome>>;

/** An hour before a change. */
export interface HourDraft {
  rows: AsyncIterable<LabeledRow>;
  /** The outcomes of labels, to which a change adds. */
  settled: Settled;
  /** Set it if the yielded rows differ from `rows`, or `settled` was extended. Otherwise the hour is not written. */
  changed: boolean;
}

/** Reads of an hour that others rewrite. */
const ATTEMPTS = 10;
const AT_ONCE = 16;
/** Number of hours whose objects are requested while the previous hour is read. */
const OPEN_AT_ONCE = 4;
const PREFIX = areaOf('truthLabeled');

/** Returns the hour in the key of an hour, or of a mark of it. */
export const hourOfKey = (key: string): string => key.split('/')[2]?.split('.')[0] ?? '';

/** Returns the hours with labeled predictions, in order. @param from inclusive, and `to` exclusive, as hours or days */
export async function labeledHours(
  work: Work,
  { from = '', to }: { from?: string; to?: string } = {},
): Promise<string[]> {
  const hours: string[] = [];
  // The key of `from` itself is behind it.
  for await (const { key } of work.storage.list(work.workBucket, PREFIX, `${PREFIX}${from}`)) {
    const hour = hourOfKey(key);
    if (to !== undefined && hour >= to) break;
    hours.push(hour);
  }
  return hours;
}

/** Yields the labeled predictions of these hours, in no order within an hour. */
export async function* readLabeled(work: Work, hours: Iterable<string>): AsyncGenerator<LabeledRow> {
  const open = (hour: string) => openHour(work, hour);
  for await (const { rows } of inOrder(OPEN_AT_ONCE, hours, open)) yield* rows;
}

/** Yields those of them that are traffic, which figures are made of. */
export async function* readTraffic(work: Work, hours: Iterable<string>): AsyncGenerator<LabeledRow> {
  const excluded = await readExcluded(work);
  for await (const row of readLabeled(work, hours)) {
    const { variant, second, row: index } = row;
    const inferenceId = fitted(index === undefined ? row.id : row.id.slice(0, row.id.lastIndexOf('_')));
    if (firstMet(excluded, { timeMs: second * 1000, variant, inferenceId }) === undefined) yield row;
  }
}

/**
 * Rewrites an hour on condition that its ETag has not changed, so that concurrent changes are all kept.
 *
 * @param change yields the new rows of the hour; it is called again if the hour was changed meanwhile
 * @returns the current ETag of the hour, `undefined` if it has no object
 */
export function rewriteHour(
  work: Work,
  hour: string,
  change: (draft: HourDraft) => AsyncIterable<LabeledRow>,
): Promise<string | undefined> {
  const key = truthKeys.labeled(hour);
  return untilWritten(`s3://${work.workBucket}/${key}`, async () => {
    const { etag, ...draft } = await openHour(work, hour);
    const known = new Set(Object.keys(draft.settled));
    const rows = await gzipped(change(draft));
    if (!draft.changed) return { result: etag };
    await forgetDone(work, draft.settled, known);
    // Write `settled` last, when all rows have been read. Gzip allows concatenated members.
    const body = Buffer.concat([await gzipped([{ settled: draft.settled }]), rows]);
    const result = await work.storage.putIf(work.workBucket, key, { body, type: 'application/gzip' }, etag);
    return result === undefined ? undefined : { result };
  });
}

/** Removes segments without waiting labels from `settled`, because their labels will not be joined again. */
async function forgetDone({ storage, workBucket }: Work, settled: Settled, known: Iterable<string>): Promise<void> {
  await forEachConcurrently(AT_ONCE, known, async (segment) => {
    if ((await storage.head(workBucket, truthKeys.waiting(segment))) === undefined) delete settled[segment];
  });
}

async function openHour({ storage, workBucket }: Work, hour: string): Promise<HourDraft & { etag?: string }> {
  const key = truthKeys.labeled(hour);
  const where = `s3://${workBucket}/${key}`;
  for (let attempt = 1; ; attempt += 1) {
    const facts = await storage.head(workBucket, key);
    if (facts === undefined) return { rows: (async function* () {})(), settled: {}, changed: false };
    try {
      const lines = storedLines(await storage.read(facts), where);
      const { settled } = (await lines.next()).value as { settled: Settled };
      return { etag: facts.etag, rows: rowsOf(lines as AsyncGenerator<LabeledRow>, where), settled, changed: false };
    } catch (error) {
      // The object was changed in between.
      if (!GONE.has((error as Error).name) || attempt === ATTEMPTS) throw error;
    }
  }
}

async function* rowsOf(rows: AsyncIterable<LabeledRow>, where: string): AsyncGenerator<LabeledRow> {
  try {
    yield* rows;
  } catch (error) {
    if (!GONE.has((error as Error).name)) throw error;
    throw new RetryableError('StorageUnavailable', 'The hour was changed while it was read', { where }, error);
  }
}
