/** The figures of the labeled predictions of a stack. */

import type { Storage } from '../../src/core/aws/storage.ts';
import type { GroundTruthSettings } from '../../src/core/settings/ground-truth-setting.ts';
import { labeledHours, readLabeled } from '../../src/ground-truth/join/labeled-store.ts';
import type { TruthFigures } from '../../src/ground-truth/measure/figures.ts';
import { measureTruth, type TruthQuery } from '../../src/ground-truth/measure/measure.ts';
import { hourOf } from '../../src/quality/tally.ts';

/** Reads the labeled predictions and computes their figures. @returns `undefined` if there are none, nor any left out */
export async function truthFigures(
  storage: Storage,
  bucket: string,
  settings: GroundTruthSettings,
  { fromMs, toMs, ...query }: TruthQuery,
): Promise<TruthFigures | undefined> {
  const hours = await labeledHours(storage, bucket, {
    ...(fromMs === undefined ? {} : { from: hourOf(fromMs) }),
    // That of the last second before the end is read.
    ...(toMs === undefined ? {} : { to: new Date(toMs).toISOString() }),
  });
  const figures = await measureTruth(readLabeled(storage, bucket, hours), settings, { ...query, fromMs, toMs });
  return [...figures.groups, ...Object.keys(figures.leftOut)].length === 0 ? undefined : figures;
}
