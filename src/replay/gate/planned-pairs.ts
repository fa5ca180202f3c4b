/** How many pairs a single look would need, so that repeated ones have a size to be planned for. */
import { Random } from '../../shared/random.ts';
import { LEVEL } from '../../shared/statistics/power.ts';
import { METRIC_TAGS, type RunData } from '../compare/run-data.ts';
import { evidenceOf } from './evidence.ts';
import { planThreshold } from './plan.ts';
import { isZeroTolerance, type Threshold } from './thresholds.ts';
import { type Pilot, type UnchangedPairs, unchangedErrors, unchangedMetric } from './unchanged.ts';

/** From 80% power to 95%, by the normal approximation: ((1.64 + 1.64) ÷ (1.64 + 0.84))². */
const MORE_POWER = 1.75;
const DRAWS = 15;
const DRAWN_PAIRS = 1000;

/**
 * Returns the pairs at which an unchanged release would pass a single look with about 95% probability: the most that a threshold
 * needs. Only the effort depends on it, and not what is decided, so a rough size will do.
 *
 * @param atMost pairs that there are
 */
export function plannedPairs(
  thresholds: readonly Threshold[],
  baseline: RunData,
  { zeroTolerance, atMost }: { zeroTolerance: number; atMost: number },
): number {
  const metrics = Object.fromEntries(METRIC_TAGS.map((tag, i) => [tag, baseline.requests.column(i)]));
  const requests = baseline.requests.size - baseline.cancelledOnPurpose;
  const pilot: Pilot = { run: { metrics, failures: [baseline.failed, requests] } };
  const sizes = thresholds.map((threshold) => {
    if (threshold.kind === 'metric')
      return differenceSize(threshold, unchangedMetric(threshold.metric, threshold.statistic === 'mean', pilot));
    if (threshold.share === 'error_rate') return differenceSize(threshold, unchangedErrors(pilot));
    const needed = planThreshold(threshold, pilot, zeroTolerance).requests ?? atMost;
    return isZeroTolerance(threshold) ? needed : needed * MORE_POWER;
  });
  return Math.min(atMost, Math.ceil(Math.max(...sizes)));
}

/** An upper bound is as far above the estimate as it must be below the limit; both shrink with the root of the size. */
function differenceSize(threshold: Threshold, { draw, perRequest }: UnchangedPairs): number {
  const random = new Random(1);
  const widths = Array.from({ length: DRAWS }, () => {
    const { bounds } = evidenceOf(threshold, draw(DRAWN_PAIRS, random));
    return bounds ? bounds.upper(LEVEL) - bounds.estimate : Number.POSITIVE_INFINITY;
  });
  const width = widths.sort((a, b) => a - b)[Math.floor(DRAWS / 2)] ?? Number.POSITIVE_INFINITY;
  return (DRAWN_PAIRS * ((2 * width) / threshold.limit) ** 2) / perRequest;
}
