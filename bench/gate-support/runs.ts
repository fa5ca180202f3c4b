/** Releases of which several runs are compared, and releases whose slowest requests time out. */

import { Random } from '../../src/core/values/random.ts';
import { type ComparedData, joinedRuns } from '../../src/replay/compare/compared-data.ts';
import { decideGate } from '../../src/replay/gate/gate.ts';
import { parseThreshold } from '../../src/replay/gate/thresholds.ts';
import type { GateOutcome } from '../../src/replay/gate/types.ts';
import { latencies } from './releases.ts';

const PAIRS = 1000;

/** Percent of the releases by outcome. */
export type Outcomes = Record<GateOutcome, number>;

function outcomes(releases: number, thresholds: readonly string[], draw: () => ComparedData): Outcomes {
  const found: Outcomes = { passed: 0, failed: 0, 'cannot-tell': 0 };
  const parsed = thresholds.map(parseThreshold);
  for (let i = 0; i < releases; i++) found[decideGate(parsed, draw()).outcome] += 100 / releases;
  return found;
}

/** @param factors of the latencies before and after. @param timeouts shares of the slowest requests */
function runsOf(random: Random, factors: readonly [number, number], timeouts: readonly [number, number] = [0, 0]) {
  const { metrics, ...none } = latencies(PAIRS, random, 'log-normal', () => 1);
  const { before, after } = metrics.request_latency;
  for (const [side, values] of [before, after].entries())
    for (let i = 0; i < PAIRS; i++) values[i] = (values[i] ?? 0) * (factors[side] ?? 1);
  const changes = new Float64Array(PAIRS);
  for (const [side, values] of [before, after].entries()) {
    const cut = values.toSorted()[PAIRS - Math.round(PAIRS * (timeouts[side] ?? 0))] ?? Infinity;
    for (let i = 0; i < PAIRS; i++) {
      if ((values[i] ?? 0) < cut) continue;
      values[i] = Infinity;
      changes[i] = (changes[i] ?? 0) + (side === 0 ? -1 : 1);
    }
  }
  const count = (change: number): number => changes.filter((one) => one === change).length;
  return {
    ...none,
    pairs: { ...none.pairs, newlyFailing: count(1), newlySucceeding: count(-1), changes },
    metrics: { request_latency: { before, after, of: PAIRS } },
  };
}

/** @param spread standard deviation by which whole runs differ. @param slower factor of the release */
export function betweenRuns(
  releases: number,
  statistic: string,
  spread: number,
  runs: number,
  slower: number,
): Outcomes {
  const random = new Random(1 + runs);
  const run = (): number => Math.exp(spread * random.normal());
  return outcomes(releases, [`request_latency:${statistic}:10%`], () =>
    joinedRuns(Array.from({ length: runs }, () => runsOf(random, [run(), slower * run()]))),
  );
}

/** The slowest requests time out, by share of the first and of the second run, and the only threshold is on p95. */
export function timingOut(releases: number, shares: readonly [number, number]): Outcomes {
  const random = new Random(1);
  return outcomes(releases, ['request_latency:p95:10%'], () => runsOf(random, [1, 1], shares));
}
