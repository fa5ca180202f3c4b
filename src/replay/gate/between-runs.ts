/** Measures the differences between several runs of each model, which a single run cannot show. */
import { studentQuantile } from '../../core/statistics/distributions.ts';
import { sum } from '../../core/values/sum.ts';
import type { ComparedData } from '../compare/compared-data.ts';
import { statisticsOf } from '../compare/differences.ts';
import { isLargerBetter } from '../compare/run-data.ts';
import { type Ends, type Evidence, evidenceOf, NO_ENDS, scaled } from './evidence.ts';
import type { Threshold } from './thresholds.ts';

/**
 * Returns a figure for each run of both sides, so that the change is the difference of the means. For a share of pairs,
 * only the second side has figures.
 */
function figuresOf(threshold: Threshold, runs: readonly ComparedData[]): [before: number[], after: number[]] {
  if (threshold.kind === 'share') {
    if (threshold.share !== 'error_rate') {
      const shares = runs.map((run) => evidenceOf(threshold, run)).map(({ cases, seen }) => (cases?.hits ?? 0) / seen);
      return [[], shares];
    }
    return [0, 1].map((side) =>
      runs.map(({ failures }) => (failures[side]?.[0] ?? 0) / (failures[side]?.[1] ?? 0)),
    ) as [number[], number[]];
  }
  const { metric, statistic, relative } = threshold;
  const pairs = runs.map(({ metrics }) => metrics[metric] && statisticsOf(metrics[metric], statistic));
  const figure = (value = Number.NaN): number => (relative ? Math.log(value) : value);
  return [0, 1].map((side) => pairs.map((pair) => figure(pair?.[side]))) as [number[], number[]];
}

/** Student's t of the difference of the means, with the variance of both sides together. */
function studentEnds(sides: readonly number[][]): Ends {
  const [from = [], to = []] = sides;
  const mean = (values: readonly number[]): number => (values.length === 0 ? 0 : sum(values) / values.length);
  const squares = sum(sides.flatMap((side) => side.map((value) => (value - mean(side)) ** 2)));
  const groups = sides.filter(({ length }) => length > 0);
  const degrees = sum(groups.map(({ length }) => length - 1));
  const error = Math.sqrt((squares / degrees) * sum(groups.map(({ length }) => 1 / length)));
  const end = (alpha: number, side: 1 | -1): number => {
    const found = mean(to) - mean(from) - side * studentQuantile(alpha, degrees) * error;
    return Number.isFinite(found) ? found : side * Infinity;
  };
  return { lower: (alpha) => end(alpha, -1), upper: (alpha) => end(alpha, 1) };
}

/**
 * Returns the mean over several pairs of runs of a metric. The distances of the ends add up as independent errors do.
 */
function together(all: readonly Evidence[]): Evidence {
  const [first] = all;
  const [seen, of] = [sum(all.map((one) => one.seen)), sum(all.map((one) => one.of))];
  const known = all.flatMap(({ bounds }) => bounds ?? []);
  if (!first || known.length < all.length) return { ...first, seen, of } as Evidence;
  const estimate = sum(known.map((one) => one.estimate)) / known.length;
  const ends = (each: readonly Ends[]): Ends => {
    const end = (alpha: number, name: 'lower' | 'upper'): number => {
      const apart = each.map((one, i) => one[name](alpha) - (known[i]?.estimate ?? 0));
      const found = estimate + ((name === 'lower' ? -1 : 1) * Math.hypot(...apart)) / known.length;
      return Number.isNaN(found) ? (name === 'lower' ? -Infinity : Infinity) : found;
    };
    return { lower: (alpha) => end(alpha, 'lower'), upper: (alpha) => end(alpha, 'upper') };
  };
  const effective = sum(known.map((one, i) => one.effective ?? all[i]?.seen ?? 0));
  return {
    ...first,
    ...{ seen, of },
    bounds: { estimate, ...ends(known), ...(known.some((one) => one.effective !== undefined) ? { effective } : {}) },
    atSize: (pairs) => ends(all.map((one) => one.atSize?.(Math.floor(pairs / all.length)) ?? NO_ENDS)),
  };
}

/**
 * Returns the evidence of several runs of each model. Takes the wider of two intervals: within the runs, and between
 * them.
 *
 * @param errorsTogether as for `evidenceOf`
 */
export function evidenceOfRuns(threshold: Threshold, data: ComparedData, errorsTogether: number): Evidence {
  const { runs = [] } = data;
  const evidence =
    threshold.kind === 'metric'
      ? together(runs.map((run) => evidenceOf(threshold, run)))
      : evidenceOf(threshold, data, errorsTogether);
  const { bounds } = evidence;
  if (!bounds) return evidence;
  const ends = studentEnds(figuresOf(threshold, runs));
  const isMetric = threshold.kind === 'metric';
  const isLogarithm = isMetric && threshold.relative;
  const inUnit = (end: Ends['lower']) => (isLogarithm ? (alpha: number) => Math.expm1(end(alpha)) : end);
  const sign = isMetric && isLargerBetter(threshold.metric) === true ? -1 : 1;
  const between = { estimate: 0, lower: inUnit(ends.lower), upper: inUnit(ends.upper) };
  const { lower, upper } = scaled(between, sign * (isMetric && !isLogarithm ? 1 : 100));
  return {
    ...evidence,
    within: bounds,
    bounds: {
      ...bounds,
      lower: (alpha) => Math.min(bounds.lower(alpha), lower(alpha)),
      upper: (alpha) => Math.max(bounds.upper(alpha), upper(alpha)),
    },
  };
}
