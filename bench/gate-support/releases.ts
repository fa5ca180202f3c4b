/** Draws what two replays would show before and after a release whose true effect is known. */

import type { Random } from '../../src/core/values/random.ts';
import type { ComparedData } from '../../src/replay/compare/compared-data.ts';
import { noCases } from '../../test/helpers/compared-data.ts';

/** How the latency of a request follows from a standard normal value, for the median request of 1 s. It must rise. */
export const LATENCIES = {
  'log-normal': (z: number) => 1000 * Math.exp(0.6 * z),
  /** A fifth of the requests takes three times as long. */
  'two kinds': (z: number) => 1000 * Math.exp(0.3 * z + 1.1 / (1 + Math.exp(-8 * (z - 0.84)))),
  'long tail': (z: number) => 1000 * Math.exp(0.5 * z + (z > 0 ? 0.15 * z * z : 0)),
} as const;
export type Latency = keyof typeof LATENCIES;

/** How alike the latencies of the same request are in two replays: the correlation of the normal values. */
const CORRELATION = 0.5;
const REST = Math.sqrt(1 - CORRELATION ** 2);

/** The 85% and 95% quantiles of the normal distribution: between them a slower tail begins. */
const [TAIL_FROM, TAIL_TO] = [1.0364, 1.6449];

/** The factor on the latency of a request with this normal value. */
type Slowdown = (z: number) => number;
const slowerTail =
  (factor: number): Slowdown =>
  (z) =>
    1 + (factor - 1) * Math.min(1, Math.max(0, (z - TAIL_FROM) / (TAIL_TO - TAIL_FROM)));

/** Latencies of the same requests, correlated. @param slowdown of the second run */
export function latencies(pairs: number, random: Random, latency: Latency, slowdown: Slowdown) {
  const of = LATENCIES[latency];
  const before = new Float64Array(pairs);
  const after = new Float64Array(pairs);
  for (let i = 0; i < pairs; i++) {
    const was = random.normal();
    const is = CORRELATION * was + REST * random.normal();
    before[i] = of(was);
    after[i] = of(is) * slowdown(is);
  }
  return { ...noCases(pairs), metrics: { request_latency: { before, after, of: pairs } } };
}

/** Requests that fail in both replays, whatever the release does. */
const FAILS_TWICE = 0.005;

/** @param before share of failed requests, as `after`, of which `FAILS_TWICE` are the same requests */
function errors(pairs: number, random: Random, [before, after]: readonly [number, number]): ComparedData {
  const twice = random.binomial(pairs, FAILS_TWICE);
  const newlySucceeding = random.binomial(pairs - twice, (before - FAILS_TWICE) / (1 - FAILS_TWICE));
  const left = pairs - twice - newlySucceeding;
  const newlyFailing = random.binomial(left, (after - FAILS_TWICE) / (1 - before));
  return {
    ...noCases(pairs),
    failures: [
      [twice + newlySucceeding, pairs],
      [twice + newlyFailing, pairs],
    ],
    pairs: { requests: pairs, known: pairs, newlyFailing, newlySucceeding },
  };
}

/** Pairs on which the judge gives no verdict. */
const UNANSWERED = 0.002;

function replies(pairs: number, random: Random, refused: number, judgedWorse: number): ComparedData {
  const open = random.binomial(pairs, UNANSWERED);
  return {
    ...noCases(pairs),
    replies: {
      compared: pairs,
      regressed: 0,
      newRefusals: random.binomial(pairs, refused),
      judged: { pairs, worse: random.binomial(pairs - open, judgedWorse), open },
    },
  };
}

/** A way in which a release may be worse, and the thresholds that are to notice it. */
export interface Shape {
  name: string;
  thresholds: readonly string[];
  /** Errors that the gate takes to come together. */
  errorsTogether?: number;
  /** Draws a release that is worse by exactly the bound of each threshold. */
  atBound(pairs: number, random: Random): ComparedData;
  /** Draws one with which nothing changed. */
  unchanged(pairs: number, random: Random): ComparedData;
}

const slower = (name: string, latency: Latency, thresholds: readonly string[], slowdown: Slowdown): Shape => ({
  name: `${name}, ${latency}`,
  thresholds: thresholds.map((statistic) => `request_latency:${statistic}:10%`),
  atBound: (pairs, random) => latencies(pairs, random, latency, slowdown),
  unchanged: (pairs, random) => latencies(pairs, random, latency, () => 1),
});

const slowerShapes = (latency: Latency): Shape[] => [
  slower('slower tail', latency, ['p95', 'p99'], slowerTail(1.1)),
  slower('slower everything', latency, ['mean', 'p50', 'p90'], () => 1.1),
];

export const SHAPES: readonly Shape[] = [
  ...(Object.keys(LATENCIES) as Latency[]).flatMap(slowerShapes),
  {
    name: 'more errors',
    thresholds: ['error_rate:1'],
    atBound: (pairs, random) => errors(pairs, random, [0.01, 0.02]),
    unchanged: (pairs, random) => errors(pairs, random, [0.01, 0.01]),
  },
  {
    name: 'more refusals',
    thresholds: ['new_refusals:2'],
    atBound: (pairs, random) => replies(pairs, random, 0.02, 0),
    unchanged: (pairs, random) => replies(pairs, random, 0.005, 0),
  },
  {
    name: 'worse by judge',
    thresholds: ['judged_worse:5'],
    atBound: (pairs, random) => replies(pairs, random, 0, 0.05),
    unchanged: (pairs, random) => replies(pairs, random, 0, 0.02),
  },
];

/** A share of the requests takes 3 s, in each run others, and the rest 0.2 s: a quantile near that share lies at a gap. */
const atGap = (slow: number, statistic: string): Shape => {
  const draw = (pairs: number, random: Random, factor: number): ComparedData => {
    const one = (): number => (random.next() < slow ? 3000 : 200) * Math.exp(0.1 * random.normal());
    const before = Float64Array.from({ length: pairs }, one);
    const after = Float64Array.from({ length: pairs }, () => factor * one());
    return { ...noCases(pairs), metrics: { request_latency: { before, after, of: pairs } } };
  };
  return {
    name: `gap, ${100 * slow}% slow`,
    thresholds: [`request_latency:${statistic}:10%`],
    atBound: (pairs, random) => draw(pairs, random, 1.1),
    unchanged: (pairs, random) => draw(pairs, random, 1),
  };
};

export const GAPS: readonly Shape[] = [atGap(0.03, 'p95'), atGap(0.04, 'p95'), atGap(0.06, 'p95'), atGap(0.12, 'p90')];
