/** Simulated captures with the judge's verdicts and people's labels, and the product's intervals from them. */

import { type CorrectedShare, correctedBy, correctedShare } from '../../src/core/statistics/corrected-share.ts';
import { type LabelCells, plugIn } from '../../src/core/statistics/label-correction.ts';
import type { Random } from '../../src/core/values/random.ts';
import { labelQuotas } from '../../src/quality/calibration/pick-labels.ts';

/** Judged captures. */
export const JUDGED = 2000;
/** Labels that `label --next` picks at a time. */
const BATCH = 50;

export interface Judge {
  /** Share of the replies that people would pass. */
  rate: number;
  /** Share of the good replies that the judge passes. */
  tpr: number;
  /** Share of the bad replies that the judge fails. */
  tnr: number;
}

export interface Cell extends Judge {
  labels: number;
}

const RATES = [0.5, 0.7, 0.8, 0.9, 0.95, 0.99];
const RIGHTS = [0.7, 0.85, 0.95, 0.99];
const LABELS = [50, 100, 200, 500];

export const CELLS: Cell[] = LABELS.flatMap((labels) =>
  RATES.flatMap((rate) => RIGHTS.flatMap((tpr) => RIGHTS.map((tnr) => ({ labels, rate, tpr, tnr })))),
);

export const nameOf = ({ labels, rate, tpr, tnr }: Cell): string =>
  `${labels} labels, rate ${rate}, TPR ${tpr}, TNR ${tnr}`;

/** Labels of the rarer class that are expected of a random sample. */
export const expectedRarer = ({ labels, rate }: Cell): number => labels * Math.min(rate, 1 - rate) + 1e-9;

/** What the intervals of one cell are like. */
export interface Intervals {
  simulations: number;
  /** Intervals that contain the true rate. */
  covered: number;
  /** Sum of the widths. */
  width: number;
  /** Figures by method. */
  methods: Record<string, number>;
}

/** Labels by what the judge and what people said, and the captures that the judge passes. */
export type Counts = [passedGood: number, passedBad: number, failedGood: number, failedBad: number, passed: number];

function addRandom(to: Intervals, judge: Judge, counts: Counts): void {
  const [passedGood, passedBad, failedGood, failedBad, passed] = counts;
  const good = passedGood + failedGood;
  const labels = good + passedBad + failedBad;
  const share = (hits: number, of: number) => ({ share: of === 0 ? Number.NaN : hits / of, of });
  const cells: LabelCells = {
    passed: share(passedGood, passedGood + passedBad),
    failed: share(failedGood, failedGood + failedBad),
    labels,
    rarer: Math.min(good, labels - good),
  };
  add(to, judge, correctedBy({ share: passed / JUDGED, of: JUDGED }, cells));
}

/** Labels of picked captures stand for all captures of their verdict. */
function addPicked(to: Intervals, judge: Judge, counts: Counts): void {
  const [passedGood, passedBad, failedGood, failedBad, passed] = counts;
  const some = (count: number, isPassed: boolean, label: boolean, weight: number) =>
    Array.from({ length: count }, () => ({ passed: isPassed, label, weight }));
  const ofPassed = passed / (passedGood + passedBad);
  const ofFailed = (JUDGED - passed) / (failedGood + failedBad);
  const labels = [
    ...some(passedGood, true, true, ofPassed),
    ...some(passedBad, true, false, ofPassed),
    ...some(failedGood, false, true, ofFailed),
    ...some(failedBad, false, false, ofFailed),
  ];
  const made = correctedShare({ strata: [{ captures: JUDGED, judged: JUDGED, passed }], labels });
  if (made !== null) add(to, judge, made);
}

function add(to: Intervals, { rate }: Judge, made: Pick<CorrectedShare, 'low' | 'high' | 'method'>): void {
  const { low, high, method } = made;
  to.simulations++;
  to.covered += low <= rate && rate <= high ? 1 : 0;
  to.width += high - low;
  to.methods[method] = (to.methods[method] ?? 0) + 1;
}

const none = (): Intervals => ({ simulations: 0, covered: 0, width: 0, methods: {} });

const passRate = ({ rate, tpr, tnr }: Judge): number => rate * tpr + (1 - rate) * (1 - tnr);

/** Draws what the judge and what people say of so many captures. */
function verdictsOf(captures: number, { rate, tpr, tnr }: Judge, random: Random) {
  const good = random.binomial(captures, rate);
  const passedGood = random.binomial(good, tpr);
  const passedBad = random.binomial(captures - good, 1 - tnr);
  return [passedGood, passedBad, good - passedGood, captures - good - passedBad] as const;
}

/** Labels of captures that were drawn at random. @param counts receives those of the first simulations, five numbers each */
export function randomLabels(cell: Cell, simulations: number, random: Random, counts: Int32Array): Intervals {
  const found = none();
  for (let at = 0; at < simulations; at++) {
    const labelled = verdictsOf(cell.labels, cell, random);
    const others = random.binomial(JUDGED - cell.labels, passRate(cell));
    const drawn: Counts = [...labelled, labelled[0] + labelled[1] + others];
    if (at * drawn.length < counts.length) counts.set(drawn, at * drawn.length);
    addRandom(found, cell, drawn);
  }
  return found;
}

/** The rate of the captures whose labels are used for others. */
const RATE_ELSEWHERE = 0.7;

/** Labels of other captures, of the same judge. @returns none where they would not have 10 of each class or say too little */
export function plugInLabels(cell: Cell, simulations: number, random: Random): Intervals {
  const { labels, rate, tpr, tnr } = cell;
  const found = none();
  if (labels * (1 - RATE_ELSEWHERE) < 20) return found;
  for (let at = 0; at < simulations; at++) {
    const good = random.binomial(labels, RATE_ELSEWHERE);
    const bad = labels - good;
    const errors = {
      tpr: { share: random.binomial(good, tpr) / good, of: good },
      tnr: { share: random.binomial(bad, tnr) / bad, of: bad },
    };
    const passed = random.binomial(JUDGED, passRate(cell));
    const { low, high } = plugIn({ share: passed / JUDGED, of: JUDGED }, errors);
    found.simulations++;
    found.covered += low <= rate && rate <= high ? 1 : 0;
    found.width += high - low;
  }
  return found;
}

/** Labels of captures that `label --next` picks, 50 at a time, each time with the labels of those before. */
export function pickedLabels(
  judge: Judge,
  wanted: readonly number[],
  simulations: number,
  random: Random,
): Intervals[] {
  const found = wanted.map(none);
  for (let at = 0; at < simulations; at++) {
    const [passedGood, passedBad, failedGood, failedBad] = verdictsOf(JUDGED, judge, random);
    const stratum = (judged: number, goods: number) => ({ judged, picked: 0, open: judged, good: 0, left: goods });
    const passes = stratum(passedGood + passedBad, passedGood);
    const fails = stratum(failedGood + failedBad, failedGood);
    for (let labels = BATCH; labels <= Math.max(...wanted); labels += BATCH) {
      for (const [index, quota] of labelQuotas([passes, fails], BATCH).entries()) {
        const from = index === 0 ? passes : fails;
        for (let picked = 0; picked < quota; picked++) {
          const isGood = random.below(from.open) < from.left;
          from.left -= isGood ? 1 : 0;
          from.good += isGood ? 1 : 0;
          from.open--;
          from.picked++;
        }
      }
      const index = wanted.indexOf(labels);
      const target = found[index];
      if (target === undefined) continue;
      const [passedRest, failedRest] = [passes.picked - passes.good, fails.picked - fails.good];
      addPicked(target, judge, [passes.good, passedRest, fails.good, failedRest, passes.judged]);
    }
  }
  return found;
}
