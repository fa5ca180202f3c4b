/** Runs simulated releases through the gate, and counts what it decides. */

import { Random } from '../../src/core/values/random.ts';
import type { ComparedData } from '../../src/replay/compare/compared-data.ts';
import { evidenceOf } from '../../src/replay/gate/evidence.ts';
import { decideGate } from '../../src/replay/gate/gate.ts';
import { planGate } from '../../src/replay/gate/plan.ts';
import { parseThreshold, type Threshold } from '../../src/replay/gate/thresholds.ts';
import type { GateOutcome } from '../../src/replay/gate/types.ts';
import type { Shape } from './releases.ts';

export const SIZES = [20, 50, 100, 300, 1000, 3000] as const;

/** Number of releases by what the gate decided, and those that the old rule would have passed. */
export type Counts = Record<GateOutcome, number> & { oldPassed: number };

export interface Cell extends Counts {
  shape: string;
  truth: 'at the bound' | 'unchanged';
  threshold: string;
  pairs: number;
  releases: number;
}

/** The rule before: what is not significantly worse than nothing passes; a share of pairs is not tested at all. */
function oldRulePasses(threshold: Threshold, data: ComparedData): boolean {
  const { bounds, cases, seen } = evidenceOf(threshold, data);
  if (cases) return (100 * cases.hits) / seen <= threshold.limit;
  // With too few values for an interval, any difference above the limit crossed it.
  if (!bounds) return slowdown(threshold, data) <= threshold.limit;
  return bounds.estimate <= threshold.limit || bounds.lower(0.025) <= 0;
}

const QUANTILES: Partial<Record<string, number>> = { p50: 0.5, p90: 0.9, p95: 0.95, p99: 0.99 };

/** By how many percent a quantile of the latency rose. */
function slowdown(threshold: Threshold, { metrics }: ComparedData): number {
  const { before, after } = metrics.request_latency ?? { before: [], after: [] };
  const share = QUANTILES[threshold.kind === 'metric' ? threshold.statistic : ''] ?? 0.5;
  const at = (values: ArrayLike<number>): number =>
    Float64Array.from(values).sort()[Math.ceil(share * values.length) - 1] ?? 0;
  return 100 * (at(after) / at(before) - 1);
}

/** Counts the decisions on the same releases for each threshold by itself. */
function cells(
  shape: Shape,
  truth: Cell['truth'],
  pairs: number,
  releases: number,
  thresholds: readonly Threshold[],
  seed: number,
  withOldRule: boolean,
): Cell[] {
  const random = new Random(seed);
  const found = thresholds.map(
    ({ text }): Cell => ({
      ...{ shape: shape.name, truth, threshold: text, pairs, releases },
      ...{ passed: 0, failed: 0, 'cannot-tell': 0, oldPassed: 0 },
    }),
  );
  for (let release = 0; release < releases; release++) {
    const data = truth === 'unchanged' ? shape.unchanged(pairs, random) : shape.atBound(pairs, random);
    for (const [i, threshold] of thresholds.entries()) {
      const cell = found[i] as Cell;
      cell[decideGate([threshold], data, shape.errorsTogether).outcome]++;
      if (withOldRule && oldRulePasses(threshold, data)) cell.oldPassed++;
    }
  }
  return found;
}

/**
 * Cells of all thresholds of the shape, at each size.
 *
 * @param withOldRule whether the old rule decides too, which takes about as long as the gate
 */
export const simulated = (
  shape: Shape,
  truth: Cell['truth'],
  releases: number,
  sizes: readonly number[] = SIZES,
  withOldRule = true,
): Cell[] =>
  sizes.flatMap((pairs) =>
    cells(shape, truth, pairs, releases, shape.thresholds.map(parseThreshold), 1 + pairs, withOldRule),
  );

/** Pilots of one length, and their plans. */
export interface Planned {
  name: string;
  /** Pairs at which 80% of the unchanged releases pass. */
  truth: number;
  pilot: number;
  /** Percent of the pilots that are long enough; of these, those whose range holds the truth, and whose middle is within a factor of two. */
  told: number;
  holds: number;
  near: number;
}

function trueSize(shape: Shape, threshold: Threshold, releases: number): number {
  const passes = (pairs: number): boolean =>
    (cells(shape, 'unchanged', pairs, releases, [threshold], 1, false)[0]?.passed ?? 0) >= 0.8 * releases;
  let [low, high] = [32, 64];
  while (!passes(high)) [low, high] = [high, 2 * high];
  while (high > 1.05 * low) {
    const middle = Math.sqrt(low * high);
    if (passes(Math.round(middle))) high = middle;
    else low = middle;
  }
  return Math.round(high);
}

/** For each threshold of the shape and each length of the pilots, how right their plans are. */
export const plannedCells = (shape: Shape, releases: number, lengths: readonly number[], pilots: number): Planned[] =>
  shape.thresholds.map(parseThreshold).flatMap((threshold) => {
    const truth = trueSize(shape, threshold, releases);
    return lengths.map((pilot): Planned => {
      const sizes = Array.from(
        { length: pilots },
        (_, i) => planGate([threshold], shape.unchanged(pilot, new Random(1 + 1000 * i))).thresholds[0]?.requests,
      ).filter((size) => size !== null && size !== undefined);
      const percent = (count: number): number => (100 * count) / Math.max(1, sizes.length);
      const isNear = (size: number): boolean => size <= 2 * truth && size >= truth / 2;
      return {
        ...{ name: `${shape.name}: ${threshold.text}`, truth, pilot, told: (100 * sizes.length) / pilots },
        holds: percent(sizes.filter(({ from, to }) => from <= truth && truth <= to).length),
        near: percent(sizes.filter(({ likely }) => isNear(likely)).length),
      };
    });
  });
