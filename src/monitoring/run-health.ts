/** The state of an endpoint from the captures that runs have processed, regardless of their age. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { addCounts, noCounts } from '../core/values/counts.ts';
import { sum } from '../core/values/sum.ts';
import type { HealthFacts } from '../health/facts.ts';
import { type Health, healthOf } from '../health/findings.ts';
import { hourMs } from '../quality/counts-store.ts';
import type { RunSummary } from './summary.ts';

type Judging = Pick<HealthFacts, 'active' | 'stack'> & { SHADOW_VARIANTS: readonly string[] };

/** @returns `undefined` if a run has not counted its work yet, because it is still running */
export function healthOfRuns(
  summaries: readonly RunSummary[],
  { active, SHADOW_VARIANTS: shadow, stack }: Judging,
): Health | undefined {
  if (summaries.length === 0 || summaries.some(({ counted }) => counted === undefined)) return undefined;
  const nowMs = Math.max(...summaries.map(({ endedAt }) => Date.parse(endedAt)));
  const cells = summaries.flatMap(({ counted: { first = '', variants = {} } = {} }) =>
    Object.entries(variants).map(([variant, cell]) => ({ hour: first, variant, cell })),
  );
  // A run over lines that were already traced has counted none of them.
  const hours = cells.length === 0 ? [nowMs] : cells.map(({ hour }) => hourMs(hour));
  const quarantined = noCounts();
  for (const { quarantineReasons } of summaries) addCounts(quarantined, quarantineReasons);
  const failed = summaries.filter(({ status }) => status === 'failed');
  const runs = failed.map(({ run, error }) => ({ run, error: error?.name ?? 'RunIncomplete' }));
  return healthOf({
    isOfRun: true,
    window: { fromMs: Math.min(...hours), toMs: Math.max(...hours) + HOUR_MS },
    lines: { all: sum(summaries.map(({ lines }) => lines.planned)), quarantined },
    ...{ cells, active, shadow, objectives: [], failedRuns: { runs }, nowMs, stack },
  });
}
