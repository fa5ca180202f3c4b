/** Compares the statistics with the figures of published packages in figures.json, which figures.py computes. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { cohensKappa } from '../../../../src/core/statistics/agreement.ts';
import * as distributions from '../../../../src/core/statistics/distributions.ts';
import { shareBounds, weightedShare, wilson } from '../../../../src/core/statistics/share.ts';
import { independentDifference, mcnemar, pairedDifference } from '../../../../src/core/statistics/share-difference.ts';

type Ends = [number, number];
type Counts =
  | { kind: 'independent'; counts: [number, number, number, number] }
  | { kind: 'paired'; counts: [number, number, number] };

interface Figures {
  distributions: Record<string, number[][]>;
  shares: { hits: number; of: number; alpha: number; wilson: Ends; exact: Ends }[];
  share_differences: (Counts & { alpha: number; ends: Ends; p_value?: number })[];
  few_counts: (Counts & { difference: number; p_value: number })[];
  mcnemar: { counts: Ends; statsmodels: number; evalsig?: number }[];
  kappa: { table: number[][]; weights: 'none' | 'linear' | 'quadratic'; value: number; low: number; high: number }[];
  weighted: {
    hits: number[];
    weights: number[];
    share: number;
    of: number;
  }[];
}

const figures = JSON.parse(readFileSync(path.join(__dirname, 'figures.json'), 'utf8')) as Figures;

const near = (ours: number, theirs: number, tolerance = 1e-6): void => {
  expect(Math.abs(ours - theirs)).toBeLessThanOrEqual(tolerance);
};

const difference = (found: Counts) => {
  if (found.kind === 'independent') {
    const [a, m, b, n] = found.counts;
    return independentDifference([a, m], [b, n]);
  }
  const [onlyBefore, onlyAfter, pairs] = found.counts;
  return pairedDifference({ onlyBefore, onlyAfter, pairs });
};

test.each([
  ['normal_quantile', distributions.normalQuantile],
  ['normal_cdf', distributions.normalCdf],
  ['beta_quantile', distributions.betaQuantile],
  ['beta_cdf', distributions.betaCdf],
  ['binomial_probability', distributions.binomialProbability],
  ['binomial_cdf', distributions.binomialCdf],
  ['student_quantile', distributions.studentQuantile],
])('%s has the relative accuracy of 1e-10 that SciPy’s figures confirm', (name, ours) => {
  const rows = figures.distributions[name] as number[][];
  expect(rows.length).toBeGreaterThan(4);
  for (const row of rows) {
    const theirs = row.at(-1) as number;
    near((ours as (...values: number[]) => number)(...row.slice(0, -1)), theirs, 1e-10 * Math.abs(theirs) + 1e-200);
  }
});

test('shares have the bounds of statsmodels', () => {
  for (const { hits, of, alpha, wilson: score, exact } of figures.shares) {
    const { low, high } = wilson(hits, of) as { low: number; high: number };
    near(low, score[0]);
    near(high, score[1]);
    const bounds = shareBounds(hits, of);
    near(bounds.lower(alpha), exact[0]);
    near(bounds.upper(alpha), exact[1]);
  }
});

test('differences of shares with many counts have the score bounds of a numerical search, and the p-value of statsmodels at 0', () => {
  for (const found of figures.share_differences) {
    near(difference(found).lower(found.alpha), found.ends[0]);
    near(difference(found).upper(found.alpha), found.ends[1]);
    if (found.p_value === undefined) continue;
    const { estimate, lower, upper } = difference(found);
    near(estimate > 0 ? lower(found.p_value) : upper(found.p_value), 0);
  }
});

test('differences of shares with few counts have the exact p-values of a sum over all tables', () => {
  for (const found of figures.few_counts) {
    const { upper } = difference(found);
    expect(upper(found.p_value * (1 + 1e-6))).toBeLessThanOrEqual(found.difference);
    expect(upper(found.p_value * (1 - 1e-6))).toBeGreaterThanOrEqual(found.difference);
  }
});

test('McNemar’s test has the p-values of statsmodels and evalsig', () => {
  for (const { counts, statsmodels, evalsig = statsmodels } of figures.mcnemar) {
    near(mcnemar(...counts), statsmodels);
    near(mcnemar(...counts), evalsig);
  }
});

test('kappa has the value and the interval of statsmodels', () => {
  for (const { table, weights, value, low, high } of figures.kappa) {
    const ours = cohensKappa({ values: table.map((_, at) => `v${at}`), counts: table }, weights);
    near(ours?.value as number, value);
    near(ours?.low as number, low);
    near(ours?.high as number, high);
  }
});

test('weighted shares have the variance of statsmodels', () => {
  for (const { hits, weights, share, of } of figures.weighted) {
    const ours = weightedShare(hits.map((hit, at) => ({ hit: hit === 1, weight: weights[at] as number })));
    near(ours.share, share);
    near(ours.of, of);
  }
});
