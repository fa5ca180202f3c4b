/** Which of several rows about the same subject counts. Nothing of it depends on a clock, or on the order of files. */

import { hash } from 'node:crypto';
import type { LineTable, Row } from './tables.ts';

/** What became of a line, or the state of a verdict. */
const RANKS = {
  // A subject with only the first two is no capture.
  duplicate: 0,
  missing: 1,
  outsideWindow: 2,
  refused: 3,
  quarantined: 4,
  /** A place in quarantine that a retry has settled. */
  retried: 5,
  alreadyThere: 6,
  traced: 6,
  // An error never replaces a verdict.
  held: 0,
  failed: 1,
  given: 2,
};
export type Ranked = keyof typeof RANKS;

const [REVISION_BITS, EVENT_BITS] = [45n, 12n];
/** Of that many bits, in hex. */
const EVENT_DIGITS = 3;

/**
 * @param revision that of the trace's item, below 2^45; 0 if there is none
 * @param event what one run did: of two rows that are otherwise alike, all readers take the same one
 */
export function precedenceOf(ranked: Ranked, isDecoded: boolean, revision: number, event: string): bigint {
  const rank = BigInt(RANKS[ranked] * 2 + (isDecoded ? 1 : 0));
  const digest = BigInt(`0x${hash('sha256', event).slice(0, EVENT_DIGITS)}`);
  return (((rank << REVISION_BITS) + BigInt(revision)) << EVENT_BITS) + digest;
}

type Subject = Pick<Row<'captures'>, 'traceId' | 'bucket' | 'key' | 'version' | 'start'>;

/** Returns what a row is about: a trace, or a place in quarantine. */
export const subjectOf = ({ traceId, bucket = '', key = '', version = '', start = 0 }: Subject): string =>
  traceId ?? JSON.stringify([bucket, key, version, start]);

/** Whether MLflow has the trace of a line. */
export const isTraced = ({ outcome }: Pick<Row<'captures'>, 'outcome'>): boolean =>
  outcome === 'traced' || outcome === 'alreadyThere';

/** Of one event, the row of the last attempt is above the others. */
export function isAbove(a: Pick<Row<'captures'>, 'precedence' | 'attempt'>, b: typeof a | undefined): boolean {
  if (b === undefined || a.precedence === b.precedence) return (a.attempt ?? 0) >= (b?.attempt ?? 0);
  return (a.precedence ?? 0n) > (b.precedence ?? 0n);
}

/** Returns the row of each subject that counts. */
export function inForce<R extends Row<'captures' | 'verdicts' | 'inferences' | 'ids/people'>, K>(
  rows: Iterable<R>,
  subjectIn: (row: R) => K,
): Map<K, R> {
  const found = new Map<K, R>();
  for (const row of rows) if (isAbove(row, found.get(subjectIn(row)))) found.set(subjectIn(row), row);
  return found;
}

/** A row as one that may have any of the columns that name its event. */
type EventRow = Row<LineTable> &
  Pick<Row<'captures'>, 'bucket' | 'version' | 'outcome'> & { scorer?: string | undefined; index?: number | undefined };

/** Keeps a row unless a later attempt has a row of its event: of the same run, line, scorer and position. */
export function addEvent<R extends EventRow>(events: Map<string, R>, row: R): void {
  const { run, bucket, key, version, start, scorer, index, outcome, attempt = 0 } = row;
  const event = JSON.stringify([run, bucket, key, version, start, scorer, index, outcome === 'retried']);
  if (attempt >= (events.get(event)?.attempt ?? 0)) events.set(event, row);
}
