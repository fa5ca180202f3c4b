/**
 * How often the 95% intervals of the figures of true answers contain the true figure, in samples of models whose figures are known,
 * beside the textbook's intervals from the normal curve.
 *
 * `--simulations N` draws fewer samples per cell.
 */
import type { Log } from '../local/python/python-environment.ts';
import { classAverages, f1Estimate } from '../src/core/statistics/agreement.ts';
import { normalQuantile, Z_95 } from '../src/core/statistics/distributions.ts';
import { FEWEST_FOR_SQUARES, NumberErrors } from '../src/core/statistics/number-errors.ts';
import { rocAuc } from '../src/core/statistics/roc-auc.ts';
import type { Estimate } from '../src/core/statistics/share.ts';
import { Random } from '../src/core/values/random.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, machine, round } from './support/result.ts';

const SIMULATIONS = 2000;
/** Cases of the rarest class that an interval of 95% is promised for. */
const ENOUGH = 10;

interface Cell {
  figure: string;
  name: string;
  /** Expected cases of the rarest class; cases, for numbers. */
  rarest: number;
  truth: number;
  /** Draws a sample; `normal` is the half width of the textbook's interval. */
  draw(): { own: Pick<Estimate, 'value'> & { low: number | null; high: number | null }; normal: number } | null;
}

interface Row extends Pick<Cell, 'figure' | 'name' | 'rarest'> {
  covered: number;
  normal: number;
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]): number => sum(values) / values.length;

/** Scores of two classes, normal with different means; the spread of the positive ones is `spread` times that of the others. */
function areaCells(random: Random): Cell[] {
  const cells: Cell[] = [];
  for (const [n, share] of [
    [50, 0.5],
    [200, 0.1],
    [200, 0.5],
    [1000, 0.01],
    [1000, 0.1],
  ] as const) {
    for (const truth of [0.6, 0.8, 0.9, 0.97]) {
      for (const spread of [1, 2]) {
        const shift = normalQuantile(truth) * Math.hypot(1, spread);
        const draw: Cell['draw'] = () => {
          const labels = Uint16Array.from({ length: n }, () => (random.next() < share ? 0 : 1));
          const values = Float64Array.from(labels, (label) =>
            label === 0 ? shift + spread * random.normal() : random.normal(),
          );
          const own = rocAuc({ values, labels, width: 1 }, [0]);
          const positives = labels.filter((label) => label === 0).length;
          return own && { own, normal: Z_95 * hanley(own.value, positives, n - positives) };
        };
        cells.push({
          figure: 'AUC',
          name: `${n} cases, ${share} positive, AUC ${truth}, spread ${spread}`,
          rarest: n * share,
          truth,
          draw,
        });
      }
    }
  }
  return cells;
}

/** The standard error of Hanley and McNeil (1982). */
function hanley(area: number, m: number, n: number): number {
  const [q1, q2] = [area / (2 - area), (2 * area ** 2) / (1 + area)];
  return Math.sqrt((area * (1 - area) + (m - 1) * (q1 - area ** 2) + (n - 1) * (q2 - area ** 2)) / (m * n));
}

/** Labels of classes that are equally frequent or not, and predictions that are right with some probability. */
function averageCells(random: Random): Cell[] {
  const cells: Cell[] = [];
  for (const [classes, step] of [
    [2, 1],
    [2, 0.1],
    [3, 0.7],
    [10, 1],
    [10, 0.7],
    [20, 1],
  ] as const) {
    for (const n of [200, 1000]) {
      for (const accuracy of [0.6, 0.9, 0.98]) {
        const weights = Array.from({ length: classes }, (_, k) => step ** k);
        const shares = weights.map((weight) => weight / sum(weights));
        const table = shares.map((share, i) =>
          shares.map((_, j) => share * (i === j ? accuracy : (1 - accuracy) / (classes - 1))),
        );
        const ends = table.flat().map((_, at, all) => sum(all.slice(0, at + 1)));
        const drawn = (): number[][] => {
          const counts = shares.map(() => shares.map(() => 0));
          for (let k = 0; k < n; k += 1) {
            const x = random.next();
            const at = Math.min(ends.length - 1, ends.findIndex((end) => end >= x) >>> 0);
            const row = counts[Math.floor(at / classes)] as number[];
            row[at % classes] = (row[at % classes] ?? 0) + 1;
          }
          return counts;
        };
        const known = classAverages({ values: [], counts: table });
        const about = {
          name: `${classes} classes, ${n} cases, each ${step} of the one before, ${accuracy} right`,
          rarest: n * Math.min(...shares),
        };
        for (const average of ['macro', 'weighted'] as const) {
          for (const measure of ['precision', 'recall', 'f1'] as const) {
            cells.push({
              ...about,
              figure: `${average} ${measure}`,
              truth: known?.[average][measure].value ?? 0,
              draw: () => {
                const own = classAverages({ values: [], counts: drawn() })?.[average][measure];
                return own === undefined ? null : { own, normal: Z_95 * Math.sqrt((own.value * (1 - own.value)) / n) };
              },
            });
          }
        }
        if (classes > 2) continue;
        const [both, support, given] = [table[1]?.[1] ?? 0, shares[1] ?? 0, sum(table.map((row) => row[1] ?? 0))];
        cells.push({
          ...about,
          figure: 'F1 of a class',
          truth: (2 * both) / (support + given),
          draw: () => {
            const counts = drawn();
            const own = f1Estimate(counts[1]?.[1] ?? 0, sum(counts[1] ?? []), sum(counts.map((row) => row[1] ?? 0)));
            return own && { own, normal: Z_95 * Math.sqrt((own.value * (1 - own.value)) / sum(counts[1] ?? [])) };
          },
        });
      }
    }
  }
  return cells;
}

const TRUTH_DRAWS = 2_000_000;
const LABEL_SPREAD = 3;
const FIGURES = ['bias', 'mae', 'rmse', 'r2'] as const;

function numberCells(random: Random): Cell[] {
  const errors: Record<string, () => number> = {
    normal: () => random.normal(),
    biased: () => random.normal() + 0.5,
    exponential: () => random.exponential(1) - 0.7,
    'log-normal': () => Math.exp(0.5 * random.normal()) - 1,
    '5% five times larger': () => random.normal() * (random.next() < 0.05 ? 5 : 1),
  };
  return Object.entries(errors).flatMap(([name, error]) => {
    let [bias, mae, mse] = [0, 0, 0];
    for (let i = 0; i < TRUTH_DRAWS; i += 1) {
      const one = error();
      bias += one / TRUTH_DRAWS;
      mae += Math.abs(one) / TRUTH_DRAWS;
      mse += (one * one) / TRUTH_DRAWS;
    }
    const truths = { bias, mae, rmse: Math.sqrt(mse), r2: 1 - mse / LABEL_SPREAD ** 2 };
    return [50, 200, 1000].flatMap((n) =>
      FIGURES.filter((figure) => n >= FEWEST_FOR_SQUARES || figure === 'bias' || figure === 'mae').map(
        (figure): Cell => ({
          figure,
          name: `${n} cases, errors ${name}`,
          rarest: n,
          truth: truths[figure],
          draw: () => {
            const sums = new NumberErrors();
            const all: number[] = [];
            for (let i = 0; i < n; i += 1) {
              const [label, one] = [100 + LABEL_SPREAD * random.normal(), error()];
              sums.add(label, label + one);
              all.push(figure === 'bias' ? one : figure === 'mae' ? Math.abs(one) : one * one);
            }
            const [own, center] = [sums[figure](), mean(all)];
            const spread = Math.sqrt(mean(all.map((one) => (one - center) ** 2)) / n);
            const scale = figure === 'rmse' ? 1 / (2 * Math.sqrt(center)) : figure === 'r2' ? LABEL_SPREAD ** -2 : 1;
            return own && { own, normal: Z_95 * spread * scale };
          },
        }),
      ),
    );
  });
}

function rowOf({ figure, name, rarest, truth, draw }: Cell, simulations: number): Row {
  let [covered, normal, all] = [0, 0, 0];
  for (let k = 0; k < simulations; k += 1) {
    const sample = draw();
    if (sample === null) continue;
    const { own, normal: half } = sample;
    all += 1;
    if (own.low !== null && own.high !== null && own.low <= truth && truth <= own.high) covered += 1;
    if (Math.abs(own.value - truth) <= half) normal += 1;
  }
  return { figure, name, rarest, covered: (100 * covered) / all, normal: (100 * normal) / all };
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const simulations = numberFlag(flags, 'simulations', SIMULATIONS);
  const random = new Random(23);
  const rows = [...areaCells(random), ...averageCells(random), ...numberCells(random)].map((cell) => {
    const row = rowOf(cell, simulations);
    log(`${row.figure.padEnd(18)} ${row.covered.toFixed(1)}%, normal curve ${row.normal.toFixed(1)}%  ${row.name}`);
    return row;
  });
  const enough = Map.groupBy(
    rows.filter(({ rarest }) => rarest >= ENOUGH),
    ({ figure }) => figure,
  );
  const covered = (of: readonly Row[], key: 'covered' | 'normal'): number[] => of.map((row) => row[key]);
  const means = (key: 'covered' | 'normal') =>
    Object.fromEntries(
      [...enough].map(([figure, of]) => [
        figure,
        `${round(mean(covered(of, key)), 1)} (worst ${round(Math.min(...covered(of, key)), 1)})`,
      ]),
    );
  const all = [...enough.values()].flat();
  const off = (key: 'covered' | 'normal'): number => mean(all.map((row) => Math.abs(row[key] - 95)));
  return {
    name: 'ground-truth-intervals',
    ratio: round(off('normal') / off('covered'), 2),
    ours: means('covered'),
    peer: means('normal'),
    machine: machine(),
    versions: { node: process.version },
    checks: [...enough].flatMap(([figure, of]) => [
      atLeast(`${figure}: covered in the mean of ${of.length} cells, %`, mean(covered(of, 'covered')), 93),
      atMost(`${figure}: covered in the mean of ${of.length} cells, %`, mean(covered(of, 'covered')), 97),
    ]),
    notes: [
      `${simulations} samples in each of ${rows.length} cells; means are over the ${all.length} with at least ${ENOUGH} expected cases of the rarest class`,
      'peer: Hanley and McNeil for AUC, and the value ± 1.96 standard errors of a share or a mean for the others',
    ],
  };
}
