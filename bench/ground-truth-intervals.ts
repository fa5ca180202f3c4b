/**
 * How often the 95% intervals of the figures of true answers contain the true figure, in samples of models whose figures are known,
 * beside the textbook's intervals from the normal curve.
 *
 * `--simulations N` draws fewer samples per cell.
 */

import type { Log } from '../local/python/python-environment.ts';
import { classAverages, f1Estimate } from '../src/core/statistics/agreement.ts';
import { normalCdf, normalQuantile, Z_95 } from '../src/core/statistics/distributions.ts';
import { NumberErrors } from '../src/core/statistics/number-errors.ts';
import { rocAuc } from '../src/core/statistics/roc-auc.ts';
import type { Estimate } from '../src/core/statistics/share.ts';
import { Random } from '../src/core/values/random.ts';
import { exponential } from './support/exponential.ts';
import { numberFlag } from './support/flags.ts';
import { atLeast, atMost, type BenchResult, round } from './support/result.ts';

const SIMULATIONS = 2000;
/** Cases of the rarest class that an interval of 95% is promised for. */
const ENOUGH = 10;

interface Cell {
  figure: string;
  name: string;
  /** Expected cases of the rarest class; for numbers cases, or 0 where they do not tell. */
  rarest: number;
  truth: number;
  /** Draws a sample; `normal` is the half width of the textbook's interval. */
  draw(): { own: Pick<Estimate, 'value'> & { low: number | null; high: number | null }; normal: number } | null;
}

/** Percent of the samples. */
interface Row extends Pick<Cell, 'figure' | 'name' | 'rarest'> {
  /** With an interval; the part of these that has the truth in it; and, of all samples, those whose interval does not. */
  given: number;
  covered: number;
  wrong: number;
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

const LABEL_SPREAD = 3;
/** Most figures of models are off by a share of what they predict. */
const RELATIVE = 0.2;
/** The mean of the size of a normal number. */
const MEAN_SIZE = Math.sqrt(2 / Math.PI);
const STUDENT = "Student's t with 3 degrees";
/** Models of which a sample may not show the largest errors: no mean coverage is promised. */
const HEAVY = /fifty|Student|1\.5|2\.5|zero/;
const FIGURES = ['bias', 'mae', 'rmse', 'r2'] as const;

/** A model that predicts numbers: draws of a label and of the error, with the true figures. */
interface NumberModel extends Record<(typeof FIGURES)[number], number> {
  name: string;
  draw(): [label: number, error: number];
}

function numberModels(random: Random): NumberModel[] {
  const besideLabels = (
    name: string,
    error: () => number,
    [bias, mae, mse]: [number, number, number],
  ): NumberModel => ({
    name: `errors ${name}`,
    draw: () => [100 + LABEL_SPREAD * random.normal(), error()],
    ...{ bias, mae, rmse: Math.sqrt(mse), r2: 1 - mse / LABEL_SPREAD ** 2 },
  });
  const relative = (name: string, label: () => number, [mean, square]: [number, number]): NumberModel => {
    const draw = (): [number, number] => {
      const drawn = label();
      return [drawn, RELATIVE * drawn * random.normal()];
    };
    const r2 = 1 - RELATIVE ** 2 / (1 - (Number.isFinite(square) ? mean ** 2 / square : 0));
    const about = `errors of 20% of labels that are ${name}`;
    return { name: about, draw, bias: 0, mae: RELATIVE * MEAN_SIZE * mean, rmse: RELATIVE * Math.sqrt(square), r2 };
  };
  const logNormal = (sigma: number, share = 1): [number, number] => [
    share * Math.exp(sigma ** 2 / 2),
    share * Math.exp(2 * sigma ** 2),
  ];
  const heavy = (sigma: number) => () => Math.exp(sigma * random.normal());
  const outOf = (share: number, times: number) => () => random.normal() * (random.next() < share ? times : 1);
  const mixed = (share: number, times: number): [number, number, number] => [
    0,
    MEAN_SIZE * (1 + share * (times - 1)),
    1 + share * (times ** 2 - 1),
  ];
  const chi = (): number => Math.hypot(random.normal(), random.normal(), random.normal()) / Math.sqrt(3);
  // Of a normal number with a mean of 0.5, and of an exponential one less 0.7.
  const biased = MEAN_SIZE * Math.exp(-1 / 8) + 0.5 * (1 - 2 * normalCdf(-0.5));
  return [
    besideLabels('normal', () => random.normal(), [0, MEAN_SIZE, 1]),
    besideLabels('biased', () => random.normal() + 0.5, [0.5, biased, 1.25]),
    besideLabels('exponential', () => exponential(random, 1) - 0.7, [0.3, 2 * Math.exp(-0.7) - 0.3, 1.09]),
    besideLabels('5% five times larger', outOf(0.05, 5), mixed(0.05, 5)),
    besideLabels('1% fifty times larger', outOf(0.01, 50), mixed(0.01, 50)),
    besideLabels(STUDENT, () => random.normal() / chi(), [0, (2 * Math.sqrt(3)) / Math.PI, 3]),
    relative('log-normal, sigma 0.5', heavy(0.5), logNormal(0.5)),
    relative('log-normal, sigma 1.5', heavy(1.5), logNormal(1.5)),
    relative('log-normal, sigma 2.5', heavy(2.5), logNormal(2.5)),
    relative('Pareto 1.5', () => (1 - random.next()) ** (-1 / 1.5), [3, Infinity]),
    relative('zero in 90%', () => (random.next() < 0.9 ? 0 : heavy(1)()), logNormal(1, 0.1)),
  ];
}

function numberCells(random: Random): Cell[] {
  return numberModels(random).flatMap((model) =>
    [50, 200, 1000, 3000].flatMap((n) =>
      FIGURES.map((figure): Cell => {
        const draw = (): ReturnType<Cell['draw']> => {
          const sums = new NumberErrors();
          const all: number[] = [];
          for (let i = 0; i < n; i += 1) {
            const [label, one] = model.draw();
            sums.add(label, label + one);
            all.push(figure === 'bias' ? one : figure === 'mae' ? Math.abs(one) : one * one);
          }
          const [own, center] = [sums[figure](), mean(all)];
          const spread = Math.sqrt(mean(all.map((one) => (one - center) ** 2)) / n);
          const variance = own && figure === 'r2' ? center / (1 - own.value) : 1;
          const scale = figure === 'rmse' ? 1 / (2 * Math.sqrt(center)) : 1 / variance;
          return own && { own, normal: Z_95 * spread * scale };
        };
        const rarest = HEAVY.test(model.name) ? 0 : n;
        return { figure, name: `${n} cases, ${model.name}`, rarest, truth: model[figure], draw };
      }),
    ),
  );
}

function rowOf({ figure, name, rarest, truth, draw }: Cell, simulations: number): Row {
  let [given, covered, normal, all] = [0, 0, 0, 0];
  for (let k = 0; k < simulations; k += 1) {
    const sample = draw();
    if (sample === null) continue;
    const { own, normal: half } = sample;
    all += 1;
    if (own.low !== null && own.high !== null) {
      given += 1;
      if (own.low <= truth && truth <= own.high) covered += 1;
    }
    if (Math.abs(own.value - truth) <= half) normal += 1;
  }
  const share = (count: number, of: number): number => (100 * count) / of;
  return {
    figure,
    name,
    rarest,
    given: share(given, all),
    covered: share(covered, given),
    wrong: share(given - covered, all),
    normal: share(normal, all),
  };
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const simulations = numberFlag(flags, 'simulations', SIMULATIONS);
  const random = new Random(23);
  const rows = [...areaCells(random), ...averageCells(random), ...numberCells(random)].map((cell) => {
    const row = rowOf(cell, simulations);
    log(
      `${row.figure.padEnd(18)} ${row.covered.toFixed(1)}% of ${row.given.toFixed(1)}%, wrong ${row.wrong.toFixed(1)}%, normal curve ${row.normal.toFixed(1)}%  ${row.name}`,
    );
    return row;
  });
  // Where some samples have no interval, those that have one are no random ones: what counts is the share of all that are misled.
  const enough = Map.groupBy(
    rows.filter(({ rarest, given }) => rarest >= ENOUGH && given > 99),
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
  const worst = (figure: string, isStudent: boolean): number =>
    Math.max(
      ...rows
        .filter((row) => row.figure === figure && row.name.includes(STUDENT) === isStudent)
        .map(({ wrong }) => wrong),
    );
  return {
    ratio: round(off('normal') / off('covered'), 2),
    ours: means('covered'),
    peer: means('normal'),
    checks: [
      ...[...enough].flatMap(([figure, of]) => [
        atLeast(`${figure}: covered in the mean of ${of.length} cells, %`, mean(covered(of, 'covered')), 93),
        atMost(`${figure}: covered in the mean of ${of.length} cells, %`, mean(covered(of, 'covered')), 97),
      ]),
      ...['rmse', 'r2'].flatMap((figure) => [
        atMost(`${figure}: intervals without the truth, of all samples, worst cell, %`, worst(figure, false), 8),
        atMost(`${figure}: the same with errors of ${STUDENT}, %`, worst(figure, true), 12),
      ]),
    ],
    notes: [
      `${simulations} samples in each of ${rows.length} cells; means are over the ${all.length} with at least ${ENOUGH} expected cases of the rarest class, and an interval in all samples`,
      `intervals without the truth, of all samples, worst cell: MAE ${round(worst('mae', false), 1)}%, bias ${round(worst('bias', false), 1)}%`,
      'peer: Hanley and McNeil for AUC, and the value ± 1.96 standard errors of a share or a mean for the others',
    ],
  };
}
