/**
 * What became of captured lines. Of a run, by the rows of that run alone: no other run changes it. Of the endpoint, by all rows about a line, of
 * which the one with the highest precedence counts.
 */
import type { Work } from '../core/aws/storage.ts';
import type { LogCounts } from '../core/contract/receipts.ts';
import { countBy } from '../core/values/counts.ts';
import { listFiles, readListed } from './files.ts';
import { addEvent, inForce } from './precedence.ts';
import type { Row, Table } from './tables.ts';

/** What may become of a line, as its row has it: its terms of the first equation, and what a person reads. */
export const OUTCOMES = {
  traced: { terms: ['lines', 'traced', 'written'], says: 'traced' },
  alreadyThere: { terms: ['lines', 'traced', 'alreadyThere'], says: 'already there' },
  /** A person has deleted its trace. */
  missing: { terms: ['lines', 'traced', 'alreadyThere'], says: 'trace deleted' },
  duplicate: { terms: ['lines', 'traced', 'duplicateLine'], says: 'duplicate' },
  quarantined: { terms: ['lines', 'quarantined'], says: 'quarantined' },
  /** Its trace could not be built, or MLflow refused it. Identical lines share this outcome. */
  refused: { terms: ['lines', 'quarantined'], says: 'refused' },
  outsideWindow: { terms: ['lines', 'outsideWindow'], says: 'outside the window' },
} as const satisfies Record<string, { terms: readonly (keyof LogCounts)[]; says: string }>;

export type Outcome = keyof typeof OUTCOMES;

/** The columns that the folds read. */
const FILE = ['attempt', 'run', 'bucket', 'key', 'start', 'outcome', 'reason'] as const;
export const LINE = [
  ...FILE,
  ...['version', 'precedence', 'traceId', 'line', 'evaluated', 'judgeable', 'notJudged', 'reasons'],
] as const;
export const VERDICT = [
  ...['precedence', 'attempt', 'run', 'traceId', 'scorer', 'state', 'value', 'errorCode', 'found'],
] as const;

/** Which rows are read. */
export interface RowQuery {
  /** Absent: of all runs. */
  run?: string | undefined;
  /** Files that were last changed before have none of them, epoch milliseconds. */
  sinceMs?: number;
  /** The last day that they may be of, such as `2026-11-20`. */
  lastDay?: string | undefined;
}

/** The clocks of S3 and of Step Functions may differ by this much. */
const CLOCKS_MS = 5 * 60_000;

/** Lists the files that may have rows, those of the newest day first. */
async function filesFor(work: Work, table: Table, { sinceMs = 0, lastDay }: RowQuery, first = '') {
  const files = await Array.fromAsync(listFiles(work, table, first, lastDay));
  return files.filter(({ lastModifiedMs }) => lastModifiedMs >= sinceMs - CLOCKS_MS).toReversed();
}

// ------------------------------------------------------------------------------------------------ the files of a run

/** What became of the lines of a capture file. */
export interface FileOutcomes {
  lines: number;
  /** By outcome, without those of 0. */
  outcomes: Partial<Record<Outcome, number>>;
  /** Of lines in quarantine. */
  reasons: Record<string, number>;
}

/** Folds the rows of a run to what became of its files, by their places such as `bucket/key`. */
export async function filesOfRun(work: Work, query: RowQuery & { run: string }): Promise<Map<string, FileOutcomes>> {
  const files = new Map<string, Map<number, Row<'captures'>>>();
  for await (const rows of readListed(work, 'captures', await filesFor(work, 'captures', query), FILE)) {
    for (const { run, bucket, key, start = 0, attempt = 0, outcome, reason } of rows) {
      // A place in quarantine has a row of its own.
      if (run !== query.run || outcome === 'retried') continue;
      const lines = files.get(`${bucket}/${key}`) ?? new Map<number, Row<'captures'>>();
      files.set(`${bucket}/${key}`, lines);
      if (attempt >= (lines.get(start)?.attempt ?? 0)) lines.set(start, { attempt, outcome, reason });
    }
  }
  return new Map([...files].map(([place, lines]) => [place, outcomesOf([...lines.values()])]));
}

function outcomesOf(rows: readonly Row<'captures'>[]): FileOutcomes {
  const reasons = rows.flatMap(({ reason }) => reason ?? []);
  return {
    lines: rows.length,
    outcomes: countBy(rows, ({ outcome = '' }) => outcome),
    reasons: countBy(reasons, String),
  };
}

// ----------------------------------------------------------------------------------------------------------- one line

/** A line: its place, or the id of its trace. */
export type LineName = { key: string; line: number } | { traceId: string };

/** What became of a line, or of all lines with the same content. */
export interface LineFate {
  outcome: Outcome;
  /** The run that wrote the trace, or else that the outcome is of. */
  run: string;
  /**
   * `state` is that of the row, `there before` if the only run has found the verdict, or `notJudged`. `reason` says why there is no value, if
   * it is known.
   */
  verdicts: { scorer: string; state: string; value?: string | undefined; reason?: string | undefined }[];
}

export interface LineStory extends LineFate {
  key: string;
  line: number;
  traceId?: string | undefined;
  /** Of a line in quarantine. */
  reason?: string | undefined;
  /** All that met the line. */
  runs: string[];
}

/** Days that are searched for a trace of which neither the run nor the file is known. */
export const DAYS_SEARCHED = 31;

/** Tells what became of a line. @returns `undefined` if no row that was asked for is about it */
export async function storyOfLine(
  work: Work,
  name: LineName,
  query: RowQuery,
  first?: string,
): Promise<LineStory | undefined> {
  const isOf = (row: Row<'captures'>): boolean =>
    (query.run === undefined || row.run === query.run) &&
    row.outcome !== 'retried' &&
    ('traceId' in name || (row.key === name.key && row.line === name.line));
  const files = await filesFor(work, 'captures', query, first);
  for (const [day, ofDay] of Map.groupBy(files, (file) => file.day)) {
    const ofName = soughtBy('traceId' in name ? name.traceId : undefined);
    const captures = (await Array.fromAsync(readListed(work, 'captures', ofDay, LINE, ofName))).flat().filter(isOf);
    const traceId = captures.find((row) => row.traceId)?.traceId;
    if (captures.length === 0) continue;
    const ofVerdicts = traceId === undefined ? [] : await filesFor(work, 'verdicts', { ...query, lastDay: day }, day);
    const found = await Array.fromAsync(readListed(work, 'verdicts', ofVerdicts, VERDICT, soughtBy(traceId)));
    const verdicts = found.flat().filter(({ run }) => (query.run ?? run) === run);
    const fate = foldLine(captures, verdicts);
    const { key = '', line = 0, reason } = captures.find(({ run }) => run === fate.run) ?? {};
    return { key, line, traceId, ...fate, reason, runs: [...new Set(captures.map(({ run = '' }) => run))] };
  }
  return undefined;
}

/** The rows of a trace, for which parts of the files are read. */
const soughtBy = (traceId: string | undefined) =>
  traceId === undefined ? undefined : { column: 'traceId' as const, values: new Set([traceId]) };

/** Folds the rows about one line: those of a run, or of all. @param all one at least */
export function foldLine(all: readonly Row<'captures'>[], verdicts: readonly Row<'verdicts'>[]): LineFate {
  // What a run says of a place is what its last attempt says.
  const events = new Map<string, Row<'captures'>>();
  for (const row of all) addEvent(events, row);
  const captures = [...events.values()];
  const [counts = {}] = inForce(captures, () => '').values();
  const writer = counts.outcome === 'alreadyThere' ? captures.find(({ outcome }) => outcome === 'traced') : undefined;
  const { outcome, run = '' } = writer ?? counts;
  const evaluated = captures.filter((row) => row.evaluated);
  const [last] = inForce(evaluated, () => '').values();
  const standing = inForce(verdicts, ({ scorer }) => scorer ?? '');
  const why = new Map((last?.notJudged ?? []).map((scorer, at) => [scorer, last?.reasons?.[at]]));
  const others = [...new Set([...why.keys(), ...(last?.judgeable ?? [])])].filter((name) => !standing.has(name));
  const isOfOne = captures.every((row) => row.run === run);
  return {
    ...{ outcome: outcome as Outcome, run },
    verdicts: [
      ...[...standing].map(([scorer, { state = '', value, errorCode, found }]) => {
        if (state !== 'given') return { scorer, state, reason: errorCode };
        return { scorer, state: found && isOfOne ? 'there before' : state, value };
      }),
      ...others.map((scorer) => ({ scorer, state: 'notJudged', reason: why.get(scorer) })),
    ],
  };
}
