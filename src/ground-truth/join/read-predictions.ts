/** Reads predictions from the ledger by their ids. */

import type { Work } from '../../core/aws/storage.ts';
import type { PredictionRow } from '../../core/contract/ground-truth.ts';
import { type ListedFile, listFiles, readListed, touches } from '../../ledger/files.ts';
import type { Column, Row } from '../../ledger/tables.ts';
import { PREDICTED, predictionRow } from '../predictions/ledger-rows.ts';

type Ids = 'ids/inferences';

const EVENT = ['run', 'key', 'start'] as const;
const JOINED = [...EVENT, 'id', 'precedence', 'traceId', 'index', 'groups'] as const;
type IdRow = Pick<Row<Ids>, (typeof JOINED)[number]>;

/** Yields the rows with ids that are wanted. Several runs may have written rows of a prediction, and a merge doubles. */
export async function* readIds<C extends Column<Ids>>(
  work: Work,
  files: Iterable<ListedFile>,
  isWanted: (id: string) => boolean,
  only: readonly (C | 'id')[],
): AsyncGenerator<Pick<Row<Ids>, C | 'id'>> {
  for await (const rows of readListed(work, 'ids/inferences', files, only)) {
    for (const row of rows) if (row.id !== undefined && isWanted(row.id)) yield row;
  }
}

/**
 * Yields each wanted prediction once, from the row with the highest precedence.
 *
 * @param files of ids
 * @param hours of the ledger, such as `2026-11-20T10`
 */
export async function* readPredictions(
  work: Work,
  files: readonly ListedFile[],
  hours: ReadonlySet<string>,
  isWanted: (id: string) => boolean,
): AsyncGenerator<PredictionRow> {
  const isTouched = (file: ListedFile) => [...hours].some((hour) => touches(file, hour));
  const found = new Map<string, IdRow>();
  for await (const row of readIds(work, files.filter(isTouched), isWanted, JOINED)) {
    const subject = subjectOf(row);
    if ((row.precedence ?? 0n) >= (found.get(subject)?.precedence ?? 0n)) found.set(subject, row);
  }
  const days = files.filter(isTouched).map(({ day }) => day);
  const listed = await Array.fromAsync(listFiles(work, 'inferences', days[0], days.at(-1)));
  for await (const rows of readListed(work, 'inferences', listed.filter(isTouched), [...EVENT, ...PREDICTED])) {
    for (const row of rows) {
      const id = found.get(subjectOf(row));
      if (id === undefined || eventOf(id) !== eventOf(row)) continue;
      found.delete(subjectOf(row));
      yield predictionRow(id, row);
    }
  }
}

/** Returns the key that identifies a prediction which several runs have written, possibly with different settings. */
const eventOf = ({ run, key, start }: Pick<IdRow, (typeof EVENT)[number]>): string => `${run}\n${key}\n${start}`;

const subjectOf = ({ traceId, index }: Pick<IdRow, 'traceId' | 'index'>): string => `${traceId}\n${index}`;
