/** Draws releases whose neighbouring requests are alike: a server with a queue, and other sequences of which the truth is known. */

import type { Random } from '../../src/core/values/random.ts';
import type { ComparedData } from '../../src/replay/compare/compared-data.ts';
import { noCases } from '../../test/helpers/compared-data.ts';
import { exponential } from '../support/exponential.ts';
import type { Shape } from './releases.ts';

/** Latencies of two runs, in the order in which requests were sent. The second one of an unchanged release. */
type Draw = (pairs: number, random: Random) => [before: Float64Array, after: Float64Array];

/** Requests until the queue has its usual length. */
const WARM_UP = 3000;
const SIGMA = 0.6;

/** Times in a queue with this number of workers: of requests that arrive at the same times in both runs, served independently. */
export const queue =
  (load: number, workers = 4, sigma = SIGMA): Draw =>
  (pairs, random) => {
    const free = [new Float64Array(workers), new Float64Array(workers)] as const;
    const found = [new Float64Array(pairs), new Float64Array(pairs)] as [Float64Array, Float64Array];
    let now = 0;
    for (let i = -WARM_UP; i < pairs; i++) {
      now += exponential(random, 1 / (load * workers));
      for (const [run, ends] of free.entries()) {
        let at = 0;
        for (let k = 1; k < workers; k++) if ((ends[k] ?? 0) < (ends[at] ?? 0)) at = k;
        ends[at] = Math.max(now, ends[at] ?? 0) + Math.exp(sigma * random.normal() - (sigma * sigma) / 2);
        if (i >= 0) (found[run] as Float64Array)[i] = 1000 * ((ends[at] ?? 0) - now);
      }
    }
    return found;
  };

/** An autoregression of the logarithms, alike by `shared` in both runs. */
export const autoregressive =
  (rho: number, shared = 0.5): Draw =>
  (pairs, random) => {
    const rest = Math.sqrt(1 - rho * rho);
    const state = [random.normal(), random.normal(), random.normal()];
    const next = (i: number): number => {
      state[i] = rho * (state[i] ?? 0) + rest * random.normal();
      return state[i] ?? 0;
    };
    const found = [new Float64Array(pairs), new Float64Array(pairs)] as [Float64Array, Float64Array];
    for (let i = 0; i < pairs; i++) {
      const common = Math.sqrt(shared) * next(0);
      for (const run of [0, 1]) {
        (found[run] as Float64Array)[i] = 1000 * Math.exp(SIGMA * (common + Math.sqrt(1 - shared) * next(run + 1)));
      }
    }
    return found;
  };

const THRESHOLDS = ['p50', 'p95', 'mean'].map((statistic) => `request_latency:${statistic}:10%`);

const shape = (name: string, draw: Draw): Shape => {
  const data = (pairs: number, random: Random, factor: number): ComparedData => {
    const [before, after] = draw(pairs, random);
    return {
      ...noCases(pairs),
      metrics: {
        request_latency: { before, after: after.map((value) => factor * value), of: pairs },
      },
    };
  };
  return {
    name,
    thresholds: THRESHOLDS,
    atBound: (pairs, random) => data(pairs, random, 1.1),
    unchanged: (pairs, random) => data(pairs, random, 1),
  };
};

/** Errors of the second run alone, in rows of this length, as a share of all requests in the long run. */
const errorsInRows = (size: number): Shape => {
  const data = (pairs: number, random: Random, share: number): ComparedData => {
    const changes = new Float64Array(pairs);
    for (let i = 1 - size; i < pairs; i++) {
      if (random.next() < share / size / (1 - share)) {
        changes.fill(1, Math.max(0, i), Math.max(0, i + size));
        i += size - 1;
      }
    }
    const newlyFailing = changes.reduce((sum, one) => sum + one, 0);
    const none = noCases(pairs);
    return { ...none, pairs: { ...none.pairs, newlyFailing, changes } };
  };
  return {
    name: `errors, ${size} in a row`,
    thresholds: ['error_rate:1', 'newly_failing:1'],
    errorsTogether: size,
    atBound: (pairs, random) => data(pairs, random, 0.01),
    unchanged: (pairs, random) => data(pairs, random, 0.001),
  };
};

export const ERRORS_IN_ROWS: readonly Shape[] = [1, 10, 50].map(errorsInRows);

export const ALIKE: readonly Shape[] = [
  ...[0.3, 0.6, 0.8].map((load) => shape(`queue at ${100 * load}% load`, queue(load))),
  ...[0.6, 0.9].map((rho) => shape(`AR(1), rho ${rho}`, autoregressive(rho))),
];
