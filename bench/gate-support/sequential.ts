/** Runs simulated releases through a gate that is looked at while they are replayed (`--until-decided`). */
import type { ComparedData } from '../../src/replay/compare/compared-data.ts';
import { decideGate } from '../../src/replay/gate/gate.ts';
import { planThreshold } from '../../src/replay/gate/plan.ts';
import { SequentialGate } from '../../src/replay/gate/sequential-gate.ts';
import { parseThreshold, type Threshold } from '../../src/replay/gate/thresholds.ts';
import { Random } from '../../src/shared/random.ts';
import type { Shape } from './releases.ts';

export interface SequentialCell {
  name: string;
  truth: 'at the bound' | 'unchanged';
  /** Pairs that a single look needs for 95% power, and pairs of the captures. */
  planned: number;
  expected: number;
  releases: number;
  passed: number;
  failed: number;
  /** Mean pairs until the end ÷ `planned`. */
  effort: number;
}

/** Adds all numbers of two values of the same form, and joins lists. */
function joined<T>(a: T, b: T): T {
  if (a instanceof Float64Array && b instanceof Float64Array) return Float64Array.from([...a, ...b]) as T;
  if (typeof a === 'number' && typeof b === 'number') return (a + b) as T;
  if (Array.isArray(a) && Array.isArray(b)) return a.map((one, i) => joined(one, b[i])) as T;
  if (typeof a !== 'object' || a === null) return a;
  return Object.fromEntries(Object.entries(a).map(([key, one]) => [key, joined(one, b[key as keyof T])])) as T;
}

function simulate(
  threshold: Threshold,
  draw: (pairs: number, random: Random) => ComparedData,
  cell: Omit<SequentialCell, 'passed' | 'failed' | 'effort'>,
): SequentialCell {
  const { planned, expected, releases } = cell;
  const random = new Random(planned + expected);
  let [passed, failed, pairs] = [0, 0, 0];
  for (let release = 0; release < releases; release++) {
    const gate = new SequentialGate({ thresholds: [threshold], planned, expected });
    let data: ComparedData | undefined;
    for (let seen = 0, goesOn = true; goesOn; ) {
      const { size, isEnd } = gate.next;
      const further = draw(size - seen, random);
      data = data ? joined(data, further) : further;
      pairs += size - seen;
      seen = size;
      gate.look(data, size, isEnd);
      goesOn = !isEnd && gate.open.length > 0;
    }
    if (gate.result.outcome === 'passed') passed++;
    if (gate.result.outcome === 'failed') failed++;
  }
  return { ...cell, passed, failed, effort: pairs / releases / planned };
}

/** From 80% power to 95%, by the normal approximation. */
const MORE_POWER = 1.75;
const POWER = 0.95;
/** Draws and steps of the search for the size with that power. */
const DRAWS = 400;
const STEP = 1.1;
/** Pairs of the plan and of the captures, at the bound: the end with the plan, and far beyond it. */
const AT_BOUND = [
  [300, 300],
  [100, 1600],
  [1000, 2000],
] as const;

/** The size at which a single look passes an unchanged release with 95% power. */
function fixedSize(threshold: Threshold, shape: Shape): number {
  const random = new Random(7);
  const pilot = { pairs: shape.unchanged(1000, random) };
  let size = (planThreshold(threshold, pilot, 0.01).requests ?? 1000) * MORE_POWER;
  const passes = (): boolean => decideGate([threshold], shape.unchanged(Math.ceil(size), random)).outcome === 'passed';
  const power = (): number => Array.from({ length: DRAWS }, passes).filter(Boolean).length / DRAWS;
  while (power() < POWER) size *= STEP;
  return Math.ceil(size);
}

/** For each threshold of the shape: releases at the bound, and unchanged ones where the plan is right. */
export function sequentialCells(shape: Shape, releases: number): SequentialCell[] {
  return shape.thresholds.map(parseThreshold).flatMap((threshold) => {
    const name = `${shape.name}: ${threshold.text}`;
    const planned = fixedSize(threshold, shape);
    const unchanged = { name, truth: 'unchanged', planned, expected: 4 * planned } as const;
    return [
      ...AT_BOUND.map(([size, expected]) =>
        simulate(threshold, shape.atBound, { name, truth: 'at the bound', planned: size, expected, releases }),
      ),
      simulate(threshold, shape.unchanged, { ...unchanged, releases: Math.ceil(releases / 5) }),
    ];
  });
}
