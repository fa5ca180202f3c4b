/** Finds traces in the rows of the ledger, by ids that people know, with the outcomes of their lines. */

import { fitted } from '../../src/captures/trace/text.ts';
import type { Work } from '../../src/core/aws/storage.ts';
import { dayOf, listFiles, readListed } from '../../src/ledger/files.ts';
import type { Sought } from '../../src/ledger/parquet.ts';
import { inForce } from '../../src/ledger/precedence.ts';
import type { Row, Table } from '../../src/ledger/tables.ts';
import { foldLine, LINE, type LineFate, VERDICT } from '../../src/ledger/what-became.ts';
import type { TimeWindow } from '../../src/quality/counts-store.ts';
import { hourOf } from '../../src/quality/tally.ts';
import type { VerdictCondition } from './dataset.ts';

/** What is looked for: a trace has all of it. */
interface Query extends TimeWindow {
  /** Of an inference, or of a trace. */
  id?: string | undefined;
  user?: string | undefined;
  session?: string | undefined;
  /** Trace of the application: 32 hex digits. */
  parentTraceId?: string | undefined;
  /** One of these: a verdict of the scorer, or one with this value, or `held` or `failed`. */
  verdicts?: readonly VerdictCondition[] | undefined;
  /** At most this many of the newest. */
  limit: number;
}

export interface FoundTrace extends LineFate {
  traceId: string;
  /** Time of the inference. */
  time: string;
  variant: string;
  /** User in the form in which the trace has it. */
  user?: string | undefined;
  session?: string | undefined;
  experimentId: string;
  /** The lines of capture files with this content. */
  places: Pick<Row<'captures'>, 'bucket' | 'key' | 'etag' | 'line'>[];
}

/** Number of traces whose rows are read together. */
const AT_ONCE = 200;
/** By trace, the hour of its inference. */
export type Hours = Map<string, string>;
/** The window of all rows that are kept. */
const ALL: TimeWindow = { fromMs: 0, toMs: Date.UTC(9999, 0) };
export const TRACE_ID = /^tr-[0-9a-f]{32}$/;

/**
 * Finds traces, newest first. Memory use grows with the number of rows that have the ids, not with the window.
 *
 * @returns `more`: further traces meet the conditions
 *
 * @example
 *     const { traces } = await findTraces(work, { user: 'u-17', fromMs, toMs, limit: 20 });
 */
export async function findTraces(work: Work, query: Query): Promise<{ traces: FoundTrace[]; more: boolean }> {
  const { limit, verdicts = [] } = query;
  const traces: FoundTrace[] = [];
  for await (const hours of candidates(work, query)) {
    const found = await tracesOf(work, hours);
    const met = (trace: FoundTrace) => verdicts.length === 0 || trace.verdicts.some((one) => isMet(verdicts, one));
    traces.push(...found.toReversed().filter(met));
    if (traces.length > limit) return { traces: traces.slice(0, limit), more: true };
  }
  return { traces, more: false };
}

async function* candidates(work: Work, query: Query): AsyncGenerator<Hours> {
  const { id = '', user, session, parentTraceId: parent, verdicts = [] } = query;
  const isTrace = TRACE_ID.test(id);
  const [first, ...others] = await Promise.all([
    ...(user === undefined ? [] : [tracesWith(work, 'ids/people', 'userId', [fitted(user)], query)]),
    ...(session === undefined ? [] : [tracesWith(work, 'ids/people', 'sessionId', [fitted(session)], query)]),
    ...(parent === undefined ? [] : [tracesWith(work, 'ids/people', 'parentTraceId', [parent], query)]),
    ...(isTrace ? [tracesWith(work, 'captures', 'traceId', [id], query)] : []),
    ...(id && !isTrace ? [tracesWith(work, 'ids/inferences', 'id', [id], query)] : []),
  ]);
  if (first === undefined) yield* judged(work, query, verdicts);
  const all = [...(first ?? [])].filter(([traceId]) => others.every((other) => other.has(traceId)));
  const sorted = all.toSorted(([, a], [, b]) => (a < b ? 1 : -1));
  for (let at = 0; at < sorted.length; at += AT_ONCE) yield new Map(sorted.slice(at, at + AT_ONCE));
}

/** Returns the traces of the rows that have one of the values. */
export async function tracesWith<T extends Table>(
  work: Work,
  table: T,
  column: keyof Row<T> & string,
  values: Iterable<string>,
  window = ALL,
): Promise<Hours> {
  const hours: Hours = new Map();
  for await (const rows of rowsIn(work, table, window, [], { column, values: new Set(values) })) {
    for (const { traceId, hour = '' } of rows) if (traceId) hours.set(traceId, hour);
  }
  return hours;
}

/** Yields the rows of a window, newest files first. @param sought limits the rows to those with one of the values */
async function* rowsIn<T extends Table>(
  work: Work,
  table: T,
  { fromMs, toMs }: TimeWindow,
  more: readonly (keyof Row<T> & string)[],
  sought?: Sought<T>,
): AsyncGenerator<Row<T>[]> {
  const [first, last] = [hourOf(fromMs), hourOf(toMs)];
  const files = await Array.fromAsync(listFiles(work, table, dayOf(first), dayOf(last)));
  const within = files.filter((file) => file.last >= first && file.first <= last);
  const sorted = within.toSorted((a, b) => (a.last < b.last ? 1 : -1));
  for await (const rows of readListed<T>(work, table, sorted, ['traceId', 'hour', ...more], sought)) {
    yield rows.filter(({ hour = '' }) => first <= hour && hour <= last);
  }
}

/** Yields the traces with a verdict that meets a condition, some at a time. */
async function* judged(work: Work, window: TimeWindow, conditions: readonly VerdictCondition[]): AsyncGenerator<Hours> {
  const seen = new Set<string>();
  let open: Hours = new Map();
  for await (const rows of rowsIn(work, 'verdicts', window, ['scorer', 'state', 'value'])) {
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
  state !== 'notJudged' &&
  conditions.some((one) => one.scorer === scorer && [undefined, value ?? state].includes(one.value));

/** Reads what became of traces, in the order of time. */
export async function tracesOf(work: Work, hours: Hours): Promise<FoundTrace[]> {
  const found: FoundTrace[] = [];
  for (const own of Map.groupBy(hours, ([, hour]) => dayOf(hour)).values()) {
    const times = own.map(([, hour]) => Date.parse(`${hour}:00Z`));
    const window = { fromMs: Math.min(...times), toMs: Math.max(...times) };
    const values = new Set(own.map(([traceId]) => traceId));
    const read = async <T extends Table>(table: T, columns: readonly (keyof Row<T> & string)[]): Promise<Row<T>[]> => {
      const column = 'traceId' as keyof Row<T> & string;
      return (await Array.fromAsync(rowsIn(work, table, window, columns, { column, values }))).flat();
    };
    const captures = Map.groupBy(await read('captures', CAPTURE), ({ traceId = '' }) => traceId);
    const verdicts = Map.groupBy(await read('verdicts', VERDICT), ({ traceId }) => traceId);
    const callers = inForce(await read('ids/people', CALLER), ({ traceId }) => traceId);
    for (const [traceId, rows] of captures) {
      const { userId: user, sessionId: session } = callers.get(traceId) ?? {};
      found.push({ ...traceIn(traceId, rows, verdicts.get(traceId) ?? []), user, session });
    }
  }
  return found.toSorted((a, b) => (a.time < b.time ? -1 : 1));
}

const CAPTURE = [...LINE, 'time', 'variant', 'experimentId', 'etag'] as const;
const CALLER = ['precedence', 'attempt', 'userId', 'sessionId'] as const;

function traceIn(traceId: string, rows: readonly Row<'captures'>[], ofTrace: readonly Row<'verdicts'>[]): FoundTrace {
  const [{ time = 0, variant = '', experimentId = '' } = {}] = rows;
  const places = rows.map(({ bucket, key, etag, line }) => ({ bucket, key, etag, line }));
  return {
    ...foldLine(rows, ofTrace),
    ...{ traceId, time: new Date(time).toISOString(), variant, experimentId },
    places: [...new Map(places.map((place) => [JSON.stringify(place), place])).values()],
  };
}
