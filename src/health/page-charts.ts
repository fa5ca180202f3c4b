/** What changes over time, as small charts. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import { type LogBins, quantileOf } from '../core/statistics/log-bins.ts';
import { section } from '../core/text/html-page.ts';
import { type Curve, chart } from '../core/text/small-chart.ts';
import { sum } from '../core/values/sum.ts';
import type { Kind } from '../ground-truth/measure/figures.ts';
import { kindOfCounts } from '../ground-truth/measure/kind.ts';
import { hourMs, sumOfCells, type TimeWindow } from '../quality/counts-store.ts';
import type { Change } from '../quality/objective-states.ts';
import { missingBy } from '../quality/outcomes.ts';
import { groupRates, type RatesQuery } from '../quality/rates.ts';
import { hourOf } from '../quality/tally.ts';
import { addedUp, type Figures, type HealthFacts, scorerOf } from './facts.ts';
import { goodName, titled } from './page-elements.ts';

/** Curves of a chart: the most frequent names, and the others together. */
const MAX_CURVES = 4;
const MAX_POINTS = 31;

/** Returns the hours at which the points of a chart start: equal parts of a window, days if it is longer than a day or two. */
export function pointsOf({ fromMs, toMs }: TimeWindow) {
  const all = (toMs - fromMs) / HOUR_MS;
  const size = [1, 3, 6, 12].find((hours) => all / hours <= MAX_POINTS) ?? 24 * Math.ceil(all / 24 / MAX_POINTS);
  const startOf = (hour: string): string => hourOf(Math.floor(hourMs(hour) / HOUR_MS / size) * size * HOUR_MS);
  const hours: string[] = [];
  for (let ms = hourMs(startOf(hourOf(fromMs))); ms < toMs; ms += size * HOUR_MS) hours.push(hourOf(ms));
  const labels = hours.map((hour) => (size < 24 ? `${hour.slice(5, 10)} ${hour.slice(11)}h` : hour.slice(5, 10)));
  return { startOf, hours, labels };
}

type Counts = Readonly<Record<string, number>>;

const STACKS: readonly [title: string, unit: string, of: (cell: QualityCell) => Counts | undefined][] = [
  ['Error replies', 'error replies by kind', ({ errorKinds }) => errorKinds],
  ['Tokens', 'tokens', ({ inputTokens = 0, outputTokens = 0 }) => ({ in: inputTokens, out: outputTokens })],
  ['Dollars', 'US dollars for the judge', ({ judgeUsd = 0 }) => ({ judge: judgeUsd })],
  ['Not judged', 'verdicts not given, by reason', ({ notJudged }) => missingBy(notJudged)],
  ['Quarantine', 'lines by reason', ({ quarantined }) => quarantined],
  ['Masked', 'items by kind, field and pattern', ({ masked }) => masked],
];

const SPREADS: readonly [title: string, unit: string, of: (cell: QualityCell) => LogBins | undefined][] = [
  ['Length of replies', 'tokens', ({ replyTokens }) => replyTokens?.bins],
  ['Length of replies', 'characters', ({ replyCharacters }) => replyCharacters?.bins],
];

const numbersIn = ({ predictions }: QualityCell) => predictions?.numbers?.bins;
const classesIn = ({ predictions }: QualityCell) => predictions?.classes;

export interface ChartFacts extends HealthFacts {
  points: ReturnType<typeof pointsOf>;
  changes: readonly Change[];
  /** What the model predicts, if the settings say it. */
  predicts: Kind | undefined;
}

export function overTime(
  { points, cells: counted, window, active, shadow, objectives, changes, predicts }: ChartFacts,
  { rates, reference, apart }: Figures,
): string {
  const { hours, labels } = points;
  const cells = addedUp(counted, points.startOf);
  const served = cells.filter(({ variant }) => !shadow.includes(variant));
  const { kind, why } = kindOfCounts(sumOfCells(served).predictions ?? {}, predicts);
  const totals = hours.map((at) => sumOfCells(served.filter(({ hour }) => hour === at)));
  const captures = hours.map((at) =>
    Object.fromEntries(
      cells.filter(({ hour }) => hour === at).map((one) => [titled(one.variant, shadow), one.cell.captures ?? 0]),
    ),
  );
  const bars = (title: string, unit: string, counts: readonly (Counts | undefined)[]): string =>
    chart({ title, unit, labels, curves: stackOf(counts), isStacked: true });
  const spread = (title: string, unit: string, bins: readonly (LogBins | undefined)[]): string =>
    chart({ title, unit, labels, curves: spreadOf(bins) });
  const traffic = [
    bars('Captures', 'captures by variant', captures),
    ...STACKS.map(([title, unit, of]) => bars(title, unit, totals.map(of))),
    ...SPREADS.map(([title, unit, of]) => spread(title, unit, totals.map(of))),
    kind === 'numbers'
      ? spread('Predicted numbers', `median, and where 10% and 90% are below; ${why}`, totals.map(numbersIn))
      : bars('Predicted classes', `predictions by class; ${why}`, totals.map(classesIn)),
  ];
  const query: RatesQuery = { window, active, shadow, by: 'hour' };
  const variants = [reference, ...apart.map(({ variant }) => variant)].filter((name) => !shadow.includes(name));
  const named = variants.length < 2 ? [] : variants.slice(0, MAX_CURVES - 1);
  const groups = [undefined, ...named].map((name) => ({
    name: name ?? 'all variants',
    hasBand: name === undefined,
    rates: groupRates(name === undefined ? served : served.filter(({ variant }) => variant === name), query),
  }));
  const quality = rates.map(({ scorer, good, is }) => {
    const curves = groups.map(({ name, hasBand, rates: byHour }): Curve => {
      const figures = hours.map((hour) => {
        const rate = byHour.find(({ group }) => group === hour)?.rates.find((one) => one.scorer === scorer);
        return rate?.n ? (rate.good ?? rate.judge) : null;
      });
      return { name, values: figures.map((one) => one?.value ?? null), band: hasBand ? figures : undefined };
    });
    const own = objectives.find(({ measure }) => scorerOf(measure, active) === scorer);
    const marks = changes.flatMap(({ objective, isMissed, since }) => {
      const at = hours.findLastIndex((hour) => hourMs(hour) <= since * 1000);
      return objective === own?.objective && at >= 0 ? [{ at, text: isMissed ? '✗ missed' : '✓ met' }] : [];
    });
    const bound = own && ('atLeast' in own.bound ? own.bound.atLeast : 1 - own.bound.atMost);
    const isShare = good !== null || is !== undefined;
    const unit = good !== null ? 'share that is good, 95% interval' : isShare ? `share that is ${is}` : 'mean';
    return chart({ title: goodName(scorer), unit, labels, curves, isShare, bound, marks });
  });
  const grid = (charts: readonly string[]): string => `<div class="charts">${charts.join('')}</div>`;
  return section('Over time', grid(traffic)) + section('Quality over time', grid(quality));
}

/** The most frequent names, and the others together. */
function stackOf(counts: readonly (Counts | undefined)[]): Curve[] {
  const of = (name: string): number[] => counts.map((one) => Math.max(0, one?.[name] ?? 0));
  const all = [...new Set(counts.flatMap((one) => Object.keys(one ?? {})))]
    .map((name) => ({ name, values: of(name) }))
    .filter(({ values }) => sum(values) > 0)
    .toSorted((a, b) => sum(b.values) - sum(a.values));
  if (all.length <= MAX_CURVES) return all;
  const others = all.slice(MAX_CURVES - 1);
  const values = counts.map((_, at) => sum(others.map((one) => one.values[at] ?? 0)));
  return [...all.slice(0, MAX_CURVES - 1), { name: 'others', values }];
}

const spreadOf = (bins: readonly (LogBins | undefined)[]): Curve[] =>
  [0.5, 0.1, 0.9].map((share) => ({
    name: share === 0.5 ? 'median' : `${share * 100}%`,
    values: bins.map((one) => quantileOf(one ?? {}, share) ?? null),
  }));
