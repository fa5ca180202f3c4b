/** Captures of several weeks whose labels are picked by `label --next`, in an MLflow in memory, and the product's corrected rates. */

import { type CorrectedShare, correctedShare } from '../../src/core/statistics/corrected-share.ts';
import type { Random } from '../../src/core/values/random.ts';
import { isJudgeScorer, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../src/judge/types.ts';
import { pickLabels } from '../../src/quality/calibration/pick-labels.ts';
import { labelsByCell, readWindowLabels } from '../../src/quality/calibration/window-labels.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { assessment, MemoryMlflow } from '../../test/doubles/memory-mlflow.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.parse('2026-10-05T00:00:00Z');
const SCORERS = scorersFor().filter(isJudgeScorer);
const SAFETY = SCORERS.find(({ name }) => name === 'safety') as JudgeScorer;
/** The judge passes a part of the good replies, and fails a part of the bad ones. */
const [TPR, TNR] = [0.97, 0.85];

/** Captures of a span of days that people would pass with the same probability. */
interface Traffic {
  captures: number;
  rate: number;
  /** Days since the start, from inclusive, to exclusive. */
  from: number;
  to: number;
  variant?: string;
}

/** A call of `label --next`, after which people label what waits. */
interface LabelCall {
  next: number;
  from: number;
  to: number;
  variant?: string;
  /** The part that people label. */
  answered?: number;
}

export interface Weeks {
  name: string;
  traffic: Traffic[];
  calls: LabelCall[];
  /** The traffic that labels can speak for; absent: all. */
  picked?: (traffic: Traffic) => boolean;
}

const weeks = (captures: readonly number[], rates: readonly number[]): Traffic[] =>
  captures.map((count, n) => ({ captures: count, rate: rates[n] ?? 0, from: 7 * n, to: 7 * n + 7 }));
const weekly = (count: number, next: number): LabelCall[] =>
  Array.from({ length: count }, (_, n) => ({ next, from: 7 * n, to: 7 * n + 7 }));

const GROWING = weeks([500, 1000, 2000, 4000], [0.8, 0.88, 0.93, 0.97]);
const VARIANTS = [
  { captures: 400, rate: 0.7, from: 0, to: 7, variant: 'blue' },
  { captures: 6000, rate: 0.97, from: 0, to: 7, variant: 'green' },
];
const each = (variants: readonly string[], next: number): LabelCall[] =>
  variants.map((variant) => ({ next, from: 0, to: 7, variant }));

type Row = [name: string, traffic: Traffic[], calls: LabelCall[], picked?: Weeks['picked']];

/** @param next traces that a call picks */
const rowsOf = (next: number): Row[] => [
  [`400 at 70%, 6,000 at 97%; ${next} a week`, weeks([400, 6000], [0.7, 0.97]), weekly(2, next)],
  [`6,000 at 97%, 400 at 70%; ${next} a week`, weeks([6000, 400], [0.97, 0.7]), weekly(2, next)],
  [`four growing weeks; ${next} a week`, GROWING, weekly(4, next)],
  [`1,000 at 90%, 4,000 at 96%; ${next} a week`, weeks([1000, 4000], [0.9, 0.96]), weekly(2, next)],
  [`1,000 at 99%, 4,000 at 70%; ${next} a week`, weeks([1000, 4000], [0.99, 0.7]), weekly(2, next)],
  [`four weeks of 2,000 at 90%; ${next} a week`, weeks(Array(4).fill(2000), Array(4).fill(0.9)), weekly(4, next)],
  ...[97, 98, 99].map(
    (percent): Row => [`one week of 2,000 at ${percent}%; ${next}`, weeks([2000], [percent / 100]), weekly(1, next)],
  ),
  [`two variants, a filter for each; ${next} each`, VARIANTS, each(['blue', 'green'], next)],
  [`two variants, only one picked from; ${next}`, VARIANTS, each(['blue'], next), ({ variant }) => variant === 'blue'],
  [
    `one of two weeks never picked from; ${next}`,
    weeks([1000, 4000], [0.8, 0.97]),
    weekly(1, next),
    ({ from }) => from === 0,
  ],
  [`a week picked twice; ${next} each time`, weeks([2000], [0.9]), [...weekly(1, next), ...weekly(1, next)]],
  [
    `a small week picked twice, a large one once; ${next}`,
    weeks([400, 6000], [0.7, 0.97]),
    [...weekly(1, next), ...weekly(2, next)],
  ],
  [
    `windows of a week that overlap by four days; ${next} each`,
    weeks([400, 1500, 4000], [0.7, 0.9, 0.97]),
    Array.from({ length: 6 }, (_, n) => ({ next, from: 3 * n, to: 3 * n + 7 })),
  ],
  [
    `both weeks after the first; ${next} each`,
    weeks([400, 6000], [0.7, 0.97]),
    [...weekly(1, next), { next, from: 0, to: 14 }],
  ],
  [
    `of the second week, a third is labelled; ${next}`,
    weeks([1000, 4000], [0.8, 0.96]),
    [...weekly(1, next), { next, from: 7, to: 14, answered: 1 / 3 }],
  ],
];

export const WEEKS: Weeks[] = [
  ...[50, 100].flatMap(rowsOf).map(([name, traffic, calls, picked]) => ({ name, traffic, calls, picked })),
  {
    name: 'each day the last week, 10 more',
    traffic: GROWING,
    calls: Array.from({ length: 28 }, (_, n) => ({ next: 10, from: Math.max(0, n - 6), to: n + 1 })),
  },
];

export interface Simulated {
  made: CorrectedShare;
  /** From the same labels, as if each stood for as many captures. */
  unweighted: CorrectedShare;
  truth: number;
  /** Captures that labels can speak for. */
  captures: number;
}

/** Draws captures and verdicts, picks, has people label what was picked, and reads the corrected rate of all days. */
export async function simulateWeeks(
  { traffic, calls, picked = () => true }: Weeks,
  random: Random,
): Promise<Simulated> {
  const mlflow = new MemoryMlflow();
  const people = new Map<string, string>();
  const counted = { captures: 0, judged: 0, passed: 0 };
  const hours = new Map<string, { hour: string; variant: string }>();
  for (const { captures, rate, from, to, variant = 'AllTraffic' } of traffic) {
    for (let n = 0; n < captures; n++) {
      const id = `tr-${random.below(2 ** 32)}-${people.size}`;
      const isGood = random.next() < rate;
      const passed = random.next() < (isGood ? TPR : 1 - TNR);
      const inferenceMs = Math.floor(START_MS + DAY_MS * (from + random.next() * (to - from)));
      mlflow.add(id, inferenceMs, [assessment('safety', passed ? 'yes' : 'no', { atMs: inferenceMs })], variant);
      people.set(id, isGood ? 'yes' : 'no');
      hours.set(`${hourOf(inferenceMs)} ${variant}`, { hour: hourOf(inferenceMs), variant });
      counted.captures++;
      counted.judged++;
      counted.passed += passed ? 1 : 0;
    }
  }
  for (const { next, from, to, variant, answered = 1 } of calls) {
    const filter = variant === undefined ? undefined : `tag.sagemaker_variant_name = '${variant}'`;
    const window = { fromMs: START_MS + from * DAY_MS, toMs: START_MS + to * DAY_MS, filter };
    const { waiting } = await pickLabels(mlflow.rest, { experimentId: '1', scorer: SAFETY, next, ...window });
    for (const id of waiting)
      if (random.next() < answered) mlflow.assess(id, assessment('safety', people.get(id), { by: 'HUMAN' }));
  }
  const read = await readWindowLabels(mlflow.rest, { experimentId: '1', scorers: SCORERS, only: ['safety'] });
  const { labels, others, covered } = labelsByCell(read.labels, read.covered)('safety', [...hours.values()]);
  const made = correctedShare({ strata: [counted], labels, others, covered });
  const even = labels.map((label) => ({ ...label, weight: 1 }));
  const unweighted = correctedShare({ strata: [counted], labels: even });
  if (made === null || unweighted === null) throw new Error('There are no captures');
  const own = traffic.filter(picked);
  const captures = own.reduce((sum, one) => sum + one.captures, 0);
  return { made, unweighted, captures, truth: own.reduce((sum, one) => sum + one.captures * one.rate, 0) / captures };
}
