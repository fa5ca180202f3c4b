/** What runs count and show of captures that a test describes. */

import { formatHour } from '../../src/captures/files/capture-path.ts';
import type { QualityCounts, QualityObservations } from '../../src/core/contract/quality.ts';
import { SAMPLE_METADATA } from '../../src/mlflow/types.ts';
import { qualityOf } from '../../src/monitoring/outcomes/folds.ts';
import type { LineOutcome } from '../../src/monitoring/outcomes/line-outcome.ts';
import { rowsOf } from '../../src/monitoring/outcomes/rows.ts';
import { RunSums } from '../../src/quality/run-sums.ts';
import type { CountedCapture, CountedVerdict, Observe } from '../../src/quality/tally.ts';

/** Returns the line of a capture, which each scorer with a verdict could judge. */
function lineOf(counted: CountedCapture, start: number): LineOutcome {
  const { traceId, isWritten, facts, verdicts } = counted;
  const { inferenceMs: time, variant, isError } = facts;
  const key = `e/${variant}/${formatHour(time)}/a.jsonl`;
  const stratumOf = ({ metadata }: CountedVerdict) => metadata[SAMPLE_METADATA] ?? '1';
  return {
    ...{ range: 0, traceId, outcome: isWritten ? 'traced' : 'alreadyThere', counted },
    place: { bucket: 'b', key, etag: '', line: 1, start, end: start, objectTimeMs: 0 },
    facts: { time, ...(isError && { errorKind: '503' }) },
    evaluation: { evaluated: true, judgeable: verdicts.map(({ name }) => name), strata: verdicts.map(stratumOf) },
    verdicts: verdicts.map((verdict) => ({
      ...{ scorer: verdict.name, state: 'given', value: String(verdict.value), stratum: stratumOf(verdict) },
      ...(typeof verdict.value === 'number' && { number: verdict.value }),
      isCode: verdict.sourceType === 'CODE',
    })),
  };
}

const RUN = { run: 'r', attempt: 0, options: {}, chunk: { chunk: 0, experimentId: '7', ranges: [] } } as never;

/** Returns what the receipt of a run has that has counted these captures. */
export function countedBy(captures: readonly CountedCapture[], observe?: Observe) {
  const lines = captures.map(lineOf);
  return qualityOf(lines, rowsOf(RUN, { SAGEMAKER_ENDPOINT_NAME: 'e' }, lines), observe);
}

export const countsOf = (captures: readonly CountedCapture[]): QualityCounts => countedBy(captures).quality ?? {};

/** Returns what a run shows that has counted these captures. */
export function observedOf(
  captures: readonly CountedCapture[],
  observe: Observe | undefined,
): QualityObservations | undefined {
  const { quality = {}, series = {}, failures = {} } = countedBy(captures, observe);
  const sums = new RunSums();
  sums.add(quality);
  sums.observe(series);
  sums.fail(failures);
  return Object.keys(sums.series).length === 0 ? undefined : sums;
}
