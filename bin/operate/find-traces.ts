/** Finds traces by the ids of people, and what became of their lines, in the rows of the ledger. */

import { fitted } from '../../src/captures/trace/text.ts';
import type { Work } from '../../src/core/aws/storage.ts';
import { dayOf, type ListedFile, listFiles, readListed, touches } from '../../src/ledger/files.ts';
import type { Sought } from '../../src/ledger/parquet.ts';
import { inForce } from '../../src/ledger/precedence.ts';
import type { Row, Table } from '../../src/ledger/tables.ts';
import { foldLine, type LineFate } from '../../src/ledger/what-became.ts';
import { hourOf } from '../../src/quality/tally.ts';
import type { VerdictCondition } from './dataset.ts';

/** What is looked for: a trace has all of it. */
export interface Wanted {
  /** Of an inference, or of a trace. */
  id?: string | undefined;
  user?: string | undefined;
  session?: string | undefined;
  /** One of these: a verdict of the scorer, or one with this value, or `held` or `failed`. */
  verdicts?: readonly VerdictCondition[] | undefined;
}

/** Whole hours, epoch milliseconds. */
interface Window {
  fromMs: number;
  toMs: number;
}

interface Query extends Wanted, Window {
  /** At most this many of the newest. */
  limit: number;
}

/** A part of a capture file. */
interface Place {
  bucket: string;
  key: string;
  version?: string | undefined;
  etag?: string | undefined;
  start: number;
  /** The last byte. */
  end: number;
}

export interface FoundTrace extends LineFate {
  traceId: string;
  /** Of the inference. */
  time: string;
  variant: string;
  /** As they stand in the trace. */
  user?: string | undefined;
  session?: string | undefined;
  experimentId: string;
  /** The lines of capture files with this content. */
  places: Place[];
}

/** Traces that are looked at together. */
const AT_ONCE = 200;
/** By trace, the hour of its inference. */
export type Hours = Map<string, string>;
/** All that is kept. */
const ALL: Window = { fromMs: 0, toMs: Date.UTC(9999, 0) };

/** Finds traces, the newest first. `more`: there are others. Memory is bounded by what has the ids, not by the window. */
export async function findTraces(work: Work, query: Query): Promise<{ traces: FoundTrace[]; more: boolean }> {
  const traces: FoundTrace[] = [];
  for await (const hours of candidates(work, query)) {
    const ofHours = await tracesOf(work, hours);
    for (const found of ofHours.toSorted((a, b) => (a.time < b.time ? 1 : -1))) {
      if (!meets(found, query.verdicts)) continue;
      if (traces.length === query.limit) return { traces, more: true };
      traces.push(found);
    }
  }
  return { traces, more: false };
}

async function* candidates(work: Work, query: Query): AsyncGenerator<Hours> {
  const { id, user, session, verdicts = [] } = query;
  const sets: Hours[] = [];
  if (user !== undefined) sets.push(await tracesOfPerson(work, 'userId', user, query));
  if (session !== undefined) sets.push(await tracesOfPerson(work, 'sessionId', session, query));
  if (id !== undefined) sets.push(await tracesWithId(work, id, query));
  const [first, ...others] = sets;
  if (first === undefined) {
    yield* judged(work, query, verdicts);
    return;
  }
  const all = [...first].filter(([traceId]) => others.every((other) => other.has(traceId)));
  const sorted = all.toSorted(([, a], [, b]) => (a < b ? 1 : -1));
  for (let at = 0; at < sorted.length; at += AT_ONCE) yield new Map(sorted.slice(at, at + AT_ONCE));
}

/** Returns the traces of a user or a session. @param value as it was captured, or as it stands in the trace */
export const tracesOfPerson = (
  work: Work,
  column: 'userId' | 'sessionId',
  value: string,
  window: Window = ALL,
): Promise<Hours> => hoursIn(rowsIn(work, 'ids/people', window, { column, values: new Set([fitted(value)]) }));

const TRACE_ID = /^tr-[0-9a-f]{32}$/;

/** Returns the traces with an id of an inference, or the one with the id of a trace. */
const tracesWithId = (work: Work, id: string, window: Window): Promise<Hours> =>
  TRACE_ID.test(id)
    ? tracesNamed(work, [id], 'captures', window)
    : hoursIn(rowsIn(work, 'ids/inferences', window, { column: 'id', values: new Set([id]) }));

/** Returns those of these traces that a table has rows of. */
export const tracesNamed = (work: Work, ids: readonly string[], table: Table, window: Window = ALL): Promise<Hours> =>
  hoursIn(rowsIn(work, table, window, { column: 'traceId', values: new Set(ids) }));

const NAMES = ['traceId', 'hour'] as const;

/** Yields the rows of a window, of the newest files first. @param sought only those with one of the values */
async function* rowsIn<T extends Table>(
  work: Work,
  table: T,
  { fromMs, toMs }: Window,
  sought?: Sought<T>,
  only: readonly (keyof Row<T> & string)[] = NAMES,
): AsyncGenerator<Row<T>[]> {
  const [first, last] = [hourOf(fromMs), hourOf(toMs)];
  const files = await Array.fromAsync(listFiles(work, table, dayOf(first), dayOf(last)));
  const within = files.filter((file) => file.last >= first && file.first <= last);
  const sorted = within.toSorted((a, b) => (a.last < b.last ? 1 : -1));
  for await (const rows of readListed<T>(work, table, sorted, only, sought)) {
    yield rows.filter(({ hour = '' }) => first <= hour && hour <= last);
  }
}

async function hoursIn(groups: AsyncIterable<readonly Row<Table>[]>): Promise<Hours> {
  const hours: Hours = new Map();
  for await (const rows of groups) for (const { traceId, hour = '' } of rows) if (traceId) hours.set(traceId, hour);
  return hours;
}

/** Yields the traces with a verdict that meets a condition, some at a time. */
async function* judged(work: Work, window: Window, conditions: readonly VerdictCondition[]): AsyncGenerator<Hours> {
  const seen = new Set<string>();
  let open: Hours = new Map();
  const only = [...NAMES, 'scorer', 'state', 'value'] as const;
  for await (const rows of rowsIn(work, 'verdicts', window, undefined, only)) {
    for (const { traceId = '', hour = '', ...verdict } of rows) {
      if (seen.has(traceId) || !isMet(conditions, verdict)) continue;
      seen.add(traceId);
      open.set(traceId, hour);
    }
    if (open.size < AT_ONCE) continue;
    yield open;
    open = new Map();
  }
  yield open;
}

const isMet = (conditions: readonly VerdictCondition[], { scorer, state, value }: Row<'verdicts'>): boolean =>
  conditions.some((one) => one.scorer === scorer && [undefined, state === 'given' ? value : state].includes(one.value));

const meets = ({ verdicts }: FoundTrace, conditions: readonly VerdictCondition[] = []): boolean =>
  conditions.length === 0 || verdicts.some((verdict) => isMet(conditions, verdict));

/** Reads what became of traces, in their order. */
export async function tracesOf(work: Work, hours: Hours): Promise<FoundTrace[]> {
  if (hours.size === 0) return [];
  const sorted = [...new Set(hours.values())].toSorted();
  const values = new Set(hours.keys());
  const isTouched = (file: ListedFile): boolean => sorted.some((hour) => touches(file, hour));
  const read = async <T extends Table>(table: T): Promise<Row<T>[]> => {
    const files = listFiles(work, table, dayOf(sorted[0] ?? ''), dayOf(sorted.at(-1) ?? ''));
    const touched = (await Array.fromAsync(files)).filter(isTouched);
    const column = 'traceId' as keyof Row<T> & string;
    return (await Array.fromAsync(readListed(work, table, touched, undefined, { column, values }))).flat();
  };
  const [captures, verdicts, people] = await Promise.all([read('captures'), read('verdicts'), read('ids/people')]);
  const rowsOf = Map.groupBy(captures, ({ traceId }) => traceId);
  const verdictsOf = Map.groupBy(verdicts, ({ traceId }) => traceId);
  const callers = inForce(people, ({ traceId }) => traceId);
  return [...hours.keys()].flatMap((traceId) => {
    const [row, ...others] = rowsOf.get(traceId) ?? [];
    if (row === undefined) return [];
    return [foundTrace([row, ...others], verdictsOf.get(traceId) ?? [], callers.get(traceId))];
  });
}

function foundTrace(
  rows: readonly [Row<'captures'>, ...Row<'captures'>[]],
  verdicts: readonly Row<'verdicts'>[],
  caller?: Row<'ids/people'>,
): FoundTrace {
  const [{ traceId = '', time = 0, variant = '', experimentId = '' }] = rows;
  return {
    ...{ traceId, time: new Date(time).toISOString(), variant, user: caller?.userId, session: caller?.sessionId },
    experimentId,
    ...foldLine(rows, verdicts),
    places: placesOf(rows),
  };
}

/** Returns each place once. */
function placesOf(rows: readonly Row<'captures'>[]): Place[] {
  const places = rows.map(({ bucket = '', key = '', version, etag, start = 0, end = 0 }) => {
    return { bucket, key, version, etag, start, end };
  });
  return [...new Map(places.map((place) => [JSON.stringify(place), place])).values()];
}
