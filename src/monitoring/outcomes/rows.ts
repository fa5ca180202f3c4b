/** Creates the rows of the ledger for the lines of an attempt at a chunk. */

import { capturePathOf, DAY_MS } from '../../captures/files/capture-path.ts';
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { maskingOf } from '../../core/settings/redact-setting.ts';
import { isTraced, precedenceOf } from '../../ledger/precedence.ts';
import { type LedgerRows, noRows, type Row } from '../../ledger/tables.ts';
import { nameOf } from '../../quality/cell.ts';
import { hourOf } from '../../quality/tally.ts';
import { chainOf } from '../write/sent-traces.ts';
import type { LineOutcome } from './line-outcome.ts';

/** The facts from which the time of a line follows. */
interface Placed {
  place: Pick<LineOutcome['place'], 'key' | 'objectTimeMs'>;
  facts?: Pick<NonNullable<LineOutcome['facts']>, 'time'> | undefined;
}

/** The key of the object names no variant. */
const NO_VARIANT = '(none)';
/** How much earlier or later than its file's time the time of a line may be. */
const [MOST_BEFORE_MS, MOST_AFTER_MS] = [400 * DAY_MS, DAY_MS];
/** Attempts are counted anew after a kill, and are fewer than this. */
const ATTEMPTS_A_KILL = 1_000;

const isTime = (ms: number | undefined): ms is number => ms !== undefined && !Number.isNaN(new Date(ms).valueOf());

/** Returns the time of the file with a line, epoch milliseconds: its key's, or else the object's. */
export function fileMsOf({ key, objectTimeMs }: Placed['place']): number {
  const ms = capturePathOf(key).hourMs ?? objectTimeMs;
  return isTime(ms) ? ms : 0;
}

/** Returns the time in a line, or else the time of its file. */
export const timeOfLine = ({ place, facts }: Placed): number => (isTime(facts?.time) ? facts.time : fileMsOf(place));

/** Returns the hour of a line, which depends on the line and its file alone. */
export function hourOfLine(line: Placed): string {
  const [own, ofFile] = [timeOfLine(line), fileMsOf(line.place)];
  return hourOf(own < ofFile - MOST_BEFORE_MS || own > ofFile + MOST_AFTER_MS ? ofFile : own);
}

export const variantOfLine = ({ place }: Pick<Placed, 'place'>): string =>
  nameOf(capturePathOf(place.key).variant ?? NO_VARIANT);

/** Returns a row for each line, for each verdict, and for each trace with an id that a caller chose. */
export function rowsOf(
  request: ChunkRequest,
  environment: Pick<LambdaEnvironment, 'SAGEMAKER_ENDPOINT_NAME'> & Parameters<typeof maskingOf>[0],
  lines: readonly LineOutcome[],
): LedgerRows {
  const rows = noRows();
  const { chunk } = request;
  const { experimentId } = chunk;
  const { SAGEMAKER_ENDPOINT_NAME: endpoint } = environment;
  const masking = maskingOf(environment);
  for (const line of lines) {
    const { outcome, place, traceId, entry, facts, caller, revision = 0, evaluation, verdicts = [] } = line;
    const { name, ...event } = eventOf(request, line);
    const isDecoded = facts !== undefined;
    const placed: Row<'captures'> = {
      ...{ experimentId, endpoint, masking },
      ...{ bucket: place.bucket, line: place.line, version: place.versionId, etag: place.etag, end: place.end },
    };
    const known = { ...placed, ...facts, ...event, ...evaluation, time: timeOfLine(line), reason: entry?.reason.name };
    rows.captures.push({
      ...{ ...known, traceId, outcome },
      precedence: precedenceOf(outcome, isDecoded, revision, name),
    });
    // A place in quarantine is a subject of its own, in the hour of its file.
    if (chunk.ranges[line.range]?.keptIn !== undefined && outcome !== 'quarantined') {
      const precedence = precedenceOf('retried', isDecoded, 0, name);
      rows.captures.push({ ...placed, ...event, hour: hourOfLine({ place }), outcome: 'retried', precedence });
    }
    for (const { isPast, ...verdict } of verdicts) {
      const ofScorer = `${name}\n${verdict.scorer}`;
      // A verdict that others have replaced since ranks below theirs.
      const ranks = precedenceOf(verdict.state, isDecoded, isPast ? 0 : revision, ofScorer);
      rows.verdicts.push({ ...event, ...verdict, traceId, experimentId, masking, precedence: ranks });
    }
    if (isTraced(line) && Object.values(caller ?? {}).some((id) => id !== undefined)) {
      const precedence = precedenceOf(outcome, isDecoded, revision, name);
      rows['ids/people'].push({ ...event, ...caller, traceId, precedence, time: timeOfLine(line) });
    }
  }
  return rows;
}

/** Returns the columns that all rows of a line share, and the name of the run's work on the line. */
function eventOf(request: ChunkRequest, line: LineOutcome) {
  const { run, chunk, attempt, options, progress } = request;
  const { bucket, key, versionId = '', start } = line.place;
  return {
    name: [run, bucket, key, versionId, start].join('\n'),
    hour: hourOfLine(line),
    variant: variantOfLine(line),
    serving: options.replay === undefined && (line.facts?.serving ?? true),
    run,
    chain: chainOf(request),
    chunk: chunk.chunk,
    attempt: ATTEMPTS_A_KILL * (progress?.kills ?? 0) + attempt,
    key,
    start,
  };
}
