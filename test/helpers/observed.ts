/** What the summary of a run gives to the detectors. */
import type { QualityObservations } from '../../src/core/contract/quality.ts';
import { RunSums } from '../../src/quality/run-sums.ts';
import { type CountedCapture, type Observe, qualityOf } from '../../src/quality/tally.ts';

/** Returns what a run shows that has counted these captures. */
export function observedOf(
  captures: readonly CountedCapture[],
  observe: Observe | undefined,
): QualityObservations | undefined {
  const { quality = {}, failures = {} } = qualityOf(captures, [], observe);
  const sums = new RunSums();
  sums.add(quality);
  sums.fail(failures);
  return sums.observations();
}
