/** What changes over time, as small charts. */

import type { QualityCell } from '../core/contract/quality.ts';
import { type LogBins, quantileOf } from '../core/statistics/log-bins.ts';
import { section } from '../core/text/html-page.ts';
import { sum } from '../core/values/sum.ts';
import { type CountedCell, hourMs, sumOfCells } from '../quality/counts-store.ts';
import type { KeptTurn } from '../quality/objective-states.ts';
import { type GroupRates, groupRates, type RatesQuery } from '../quality/rates.ts';
import { type Curve, timeChart } from './charts.ts';
import { type Known, scorerOf } from './facts.ts';
import type { Buckets } from './page.ts';
import { goodName } from './page-parts.ts';

/** Curves of a chart: the most frequent names, and the others together. */
const MAX_CURVES = 4;

/** The curve of all variants, which has an interval. */
const ALL = 'all variants';

type Counts = Readonly<Record<string, number>>;

const STACKS: readonly [title: string, unit: string, of: (cell: QualityCell) => Counts | undefined][] = [
  ['Error replies', 'error replies by kind', ({ errorKinds }) => errorKinds],
  ['Tokens', 'tokens', ({ inputTokens = 0, outputTokens = 0 }) => ({ in: inputTokens, out: outputTokens })],
  ['Dollars', 'US dollars for the judge', ({ judgeUsd = 0 }) => ({ judge: judgeUsd })],
  ['Not judged', 'verdicts not given, by reason', ({ notJudged }) => notJudged],
  ['Quarantine', 'lines by reason', ({ quarantined }) => quarantined],
  ['Predicted classes', 'predictions', ({ predictions }) => predictions?.classes],
];

const SPREADS: readonly [title: string, unit: string, of: (cell: QualityCell) => LogBins | undefined][] = [
  ['Length of replies', 'tokens', ({ replyTokens }) => replyTokens?.bins],
  ['Length of replies', 'characters', ({ replyCharacters }) => replyCharacters?.bins],
  ['Predicted numbers', 'median, and where 10% and 90% are below', ({ predictions }) => predictions?.numbers?.bins],
];

export function overTime(known: Known, turns: readonly KeptTurn[], { hours, cells }: Buckets): string {
  const served = cells.filter(({ variant }) => !known.facts.shadow.includes(variant));
  const totals = inEach(hours, served, sumOfCells);
  const variants = variantsOf(served);
  const byVariant = inEach(hours, cells, (own) =>
    Object.fromEntries(own.map(({ variant, cell: { captures = 0 } }) => [variant, captures])),
  );
  const { active, window, shadow } = known.facts;
  const query: RatesQuery = { window, active, shadow, by: 'hour' };
  const groups = [{ name: ALL, rates: groupRates(served, query) }];
  for (const name of variants.length < 2 ? [] : variants.slice(0, MAX_CURVES - 1)) {
    const own = served.filter(({ variant }) => variant === name);
    groups.push({ name, rates: groupRates(own, query) });
  }
  const labels = hours.map((hour) => (isInDays(hours) ? hour.slice(5, 10) : `${hour.slice(5, 10)} ${hour.slice(11)}h`));
  const bars = (title: string, unit: string, counts: readonly (Counts | undefined)[]): string =>
    timeChart({ title, unit, labels, curves: stackOf(counts), isStacked: true });
  const traffic = [
    bars('Captures', 'captures by variant', byVariant),
    ...STACKS.map(([title, unit, of]) => bars(title, unit, totals.map(of))),
    ...SPREADS.map(([title, unit, of]) => timeChart({ title, unit, labels, curves: spreadOf(totals.map(of)) })),
  ];
  const quality = known.rates.map(({ scorer, good, is }) => {
    const curves = groups.map(({ name, rates }) => curveOf(name, hours, rates, scorer));
    const isShare = good !== null || is !== undefined;
    const unit = good !== null ? 'share that is good, 95% interval' : isShare ? `share that is ${is}` : 'mean';
    const title = goodName(scorer);
    return timeChart({ title, unit, labels, curves, isShare, ...objectiveOf(known, scorer, turns, hours) });
  });
  const grid = (charts: readonly string[]): string => `<div class="charts">${charts.join('')}</div>`;
  return section('Over time', grid(traffic)) + section('Quality over time', grid(quality));
}

const isInDays = ([first = '', second = '']: readonly string[]): boolean =>
  hourMs(second) - hourMs(first) >= 86_400_000;

function inEach<T>(hours: readonly string[], cells: readonly CountedCell[], of: (own: CountedCell[]) => T): T[] {
  const byHour = Map.groupBy(cells, ({ hour }) => hour);
  return hours.map((hour) => of(byHour.get(hour) ?? []));
}

/** The variants, that with the most captures first. */
const variantsOf = (cells: readonly CountedCell[]): string[] =>
  [...Map.groupBy(cells, ({ variant }) => variant)]
    .map(([variant, own]) => ({ variant, captures: sumOfCells(own).captures ?? 0 }))
    .toSorted((a, b) => b.captures - a.captures)
    .map(({ variant }) => variant);

function stackOf(counts: readonly (Counts | undefined)[]): Curve[] {
  const of = (name: string): number[] => counts.map((one) => Math.max(0, one?.[name] ?? 0));
  const names = [...new Set(counts.flatMap((one) => Object.keys(one ?? {})))]
    .map((name) => ({ name, total: sum(of(name)) }))
    .filter(({ total }) => total > 0)
    .toSorted((a, b) => b.total - a.total)
    .map(({ name }) => name);
  const own = names.length > MAX_CURVES ? names.slice(0, MAX_CURVES - 1) : names;
  const curves = own.map((name): Curve => ({ name, values: of(name) }));
  const others = names.slice(own.length).map(of);
  if (others.length > 0)
    curves.push({ name: 'others', values: counts.map((_, at) => sum(others.map((one) => one[at] ?? 0))) });
  return curves;
}

const spreadOf = (bins: readonly (LogBins | undefined)[]): Curve[] =>
  [0.5, 0.1, 0.9].map((share) => ({
    name: share === 0.5 ? 'median' : `${share * 100}%`,
    values: bins.map((one) => quantileOf(one ?? {}, share) ?? null),
  }));

function curveOf(name: string, hours: readonly string[], groups: readonly GroupRates[], scorer: string): Curve {
  const figures = hours.map((hour) => {
    const rate = groups.find(({ group }) => group === hour)?.rates.find((one) => one.scorer === scorer);
    return rate?.n ? (rate.good ?? rate.judge) : null;
  });
  const values = figures.map((one) => one?.value ?? null);
  const band = { low: figures.map((one) => one?.low ?? null), high: figures.map((one) => one?.high ?? null) };
  return { name, values, band: name === ALL ? band : undefined };
}

/** The objective of a scorer, and when it was missed or met. */
function objectiveOf({ facts }: Known, scorer: string, turns: readonly KeptTurn[], hours: readonly string[]) {
  const own = facts.objectives.find(({ measure }) => (scorerOf(measure, facts.active) ?? measure) === scorer);
  if (own === undefined) return {};
  const marks = turns.flatMap(({ objective, isMissed, since }) => {
    const at = hours.findLastIndex((hour) => hourMs(hour) <= since * 1000);
    return objective === own.objective && at >= 0 ? [{ at, text: isMissed ? '✗ missed' : '✓ met' }] : [];
  });
  return { bound: 'atLeast' in own.bound ? own.bound.atLeast : 1 - own.bound.atMost, marks };
}
