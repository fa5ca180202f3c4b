/** Runs simulated releases through the gate, and counts what it decides. */

import { Random } from '../../src/core/values/random.ts';
import { decideGate } from '../../src/replay/gate/gate.ts';
import { planGate } from '../../src/replay/gate/plan.ts';
import { parseThreshold, type Threshold } from '../../src/replay/gate/thresholds.ts';
import type { GateOutcome } from '../../src/replay/gate/types.ts';
import type { Shape } from './releases.ts';

export const SIZES = [20, 50, 100, 300, 1000, 3000] as const;

/** Numbers of releases by what the gate decided. */
export interface Cell extends Record<GateOutcome, number> {
  shape: string;
  truth: 'at the bound' | 'unchanged';
  threshold: string;
  pairs: number;
  releases: number;
}

/** Counts the decisions on the same releases for each threshold by itself. */
function cells(
  shape: Shape,
  truth: Cell['truth'],
  pairs: number,
  releases: number,
  thresholds: readonly Threshold[],
  seed: number,
): Cell[] {
  const random = new Random(seed);
  const found = thresholds.map(
    ({ text }): Cell => ({
      ...{ shape: shape.name, truth, threshold: text, pairs, releases },
      ...{ passed: 0, failed: 0, 'cannot-tell': 0 },
    }),
  );
  for (let release = 0; release < releases; release++) {
    const data = truth === 'unchanged' ? shape.unchanged(pairs, random) : shape.atBound(pairs, random);
    for (const [i, threshold] of thresholds.entries()) {
      const cell = found[i] as Cell;
      cell[decideGate([threshold], data, shape.errorsTogether).outcome]++;
    }
  }
  return found;
}

/** Cells of all thresholds of the shape, at each size. */
export const simulated = (
  shape: Shape,
  truth: Cell['truth'],
  releases: number,
  sizes: readonly number[] = SIZES,
): Cell[] =>
  sizes.flatMap((pairs) => cells(shape, truth, pairs, releases, shape.thresholds.map(parseThreshold), 1 + pairs));

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
    (cells(shape, 'unchanged', pairs, releases, [threshold], 1)[0]?.passed ?? 0) >= 0.8 * releases;
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
