/** Small charts of changes over time: the whole window, or for a finding from before the change on. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import { type LogBins, quantileOf } from '../core/statistics/log-bins.ts';
import { drawing } from '../core/text/html-page.ts';
import { type Page, type Part, section } from '../core/text/page.ts';
import { sum } from '../core/values/sum.ts';
import type { Kind } from '../ground-truth/measure/figures.ts';
import { kindOfCounts } from '../ground-truth/measure/kind.ts';
import { hourMs, sumOfCells, type TimeWindow } from '../quality/counts-store.ts';
import { ERROR_REPLIES } from '../quality/objectives.ts';
import { missingBy } from '../quality/outcomes.ts';
import { groupRates, type Rate } from '../quality/rates.ts';
import { hourOf } from '../quality/tally.ts';
import { addedUp, type Figures, type HealthFacts, scorerOf } from './facts.ts';
import type { Finding } from './findings.ts';
import { QUALITY_RULES } from './quality-rules.ts';
import { type Curve, chart } from './small-chart.ts';

/** Maximum number of curves of a chart: the most frequent names, and the sum of the others. */
const MAX_CURVES = 4;
const MAX_POINTS = 31;
/** Height at which three findings next to each other and the replies to read fit a screen. */
const FINDING_HEIGHT = 130;

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

/** Returns the name of a rate that shows the share of good captures. */
export const goodName = (scorer: string): string => (scorer === ERROR_REPLIES ? 'without error' : scorer);

/** A variant, and whether no user sees its replies. */
const titled = (variant: string, shadow: readonly string[]): string =>
  `${variant}${shadow.includes(variant) ? ' (shadow)' : ''}`;

type Counts = Readonly<Record<string, number>>;
/** Counts of served variants at a point of time. The captures by variant include all variants. */
type Totals = QualityCell & { byVariant: Counts };

/** Charts of counts, by the finding to which they belong. */
const COUNTS: Readonly<Record<string, readonly [title: string, of: (totals: Totals) => Counts | undefined]>> = {
  captures: ['Captures by variant', ({ byVariant }) => byVariant],
  'error-replies': ['Error replies by kind', ({ errorKinds }) => errorKinds],
  'failed-calls': ['Calls without a reply, by reason', ({ failedCalls }) => failedCalls],
  'empty-replies': ['Empty replies in words', ({ replies }) => ({ empty: replies?.words?.empty ?? 0 })],
  unmeasured: ['Captures that no scorer applies to', ({ unmeasured = 0 }) => ({ captures: unmeasured })],
  tokens: ['Tokens', ({ inputTokens = 0, outputTokens = 0 }) => ({ in: inputTokens, out: outputTokens })],
  budget: ['US dollars for the judge', ({ judgeUsd = 0 }) => ({ judge: judgeUsd })],
  'not-judged': ['Verdicts not given, by reason', ({ notJudged }) => missingBy(notJudged)],
  quarantine: ['Lines in quarantine, by reason', ({ quarantined }) => quarantined],
  masked: ['Items masked, by kind, field and pattern', ({ masked }) => masked],
};

/** Adds up the cells for the points of a window. @param points each point begins with a cell, or has no cell */
export function courseOf(facts: HealthFacts, figures: Figures, points: ReturnType<typeof pointsOf>) {
  const [first = ''] = points.hours;
  const since = facts.cells.filter(({ hour }) => hour >= first);
  const cells = addedUp(since, points.startOf);
  const served = cells.filter(({ variant }) => !facts.shadow.includes(variant));
  const totals = points.hours.map((at): Totals => {
    const own = cells.filter(({ hour }) => hour === at);
    const captures = own.map(({ variant, cell }) => [titled(variant, facts.shadow), cell.captures ?? 0]);
    const sums = sumOfCells(served.filter(({ hour }) => hour === at));
    return { ...sums, byVariant: Object.fromEntries(captures) };
  });
  return { ...facts, ...figures, ...points, cells, served, totals };
}

type Course = ReturnType<typeof courseOf>;

/** @param predicts kind of the model's predictions, if set */
export function overTime(course: Course, predicts?: Kind): Page {
  const { totals, labels, rates, served } = course;
  const { kind, why } = kindOfCounts(sumOfCells(served).predictions ?? {}, predicts);
  const median = `median, and where 10% and 90% are below; ${why}`;
  const numbers = spreadOf(totals.map(({ predictions }) => predictions?.numbers?.bins));
  const classes = stackOf(totals.map(({ predictions }) => predictions?.classes));
  const predicted =
    kind === 'numbers'
      ? chart({ title: 'Predicted numbers', unit: median, labels, curves: numbers })
      : chart({ title: 'Predicted classes', unit: why, labels, curves: classes, isStacked: true });
  const counts = Object.keys(COUNTS).map((name) => countChart(course, name));
  const quality = rates.map((rate) => scorerChart(course, rate));
  return [grid('Over time', [...counts, predicted]), grid('Quality over time', quality)];
}

/** Puts HTML side by side. Without HTML, the part is left out. @param rows each begins a new line */
export const grid = (title: string, ...rows: readonly (readonly string[])[]): Part => {
  const html = rows.map((some) => (some.join('') === '' ? '' : `<div class="charts">${some.join('')}</div>`)).join('');
  return html !== '' && section(title, drawing(html));
};

/**
 * Returns the chart of a finding. Returns an empty text if the finding has no course in time, such as a failed run.
 *
 * @param lately a shorter course, for changes within it, and for counts without a known beginning
 */
export function findingChart(course: Course, lately: Course, finding: Finding): string {
  const { name, subject = '', scorer = scorerOf(subject, course.active), since } = finding;
  if (name in COUNTS) return countChart(lately, name, FINDING_HEIGHT);
  const rate = course.rates.find((one) => one.scorer === scorer);
  if (rate === undefined || !(name in QUALITY_RULES)) return '';
  const isLately = Date.parse(since ?? '') > hourMs(lately.hours[1] ?? '');
  return scorerChart(isLately ? lately : course, rate, finding);
}

function countChart({ totals, labels }: Course, name: string, height?: number): string {
  const [title = '', of] = COUNTS[name] ?? [];
  const curves = stackOf(totals.map((one) => of?.(one)));
  return chart({ title, unit: '', labels, curves, isStacked: true, height });
}

function scorerChart(course: Course, { scorer, good, is }: Rate, finding?: Finding): string {
  const { hours, labels, active, objectives, shadow } = course;
  const curves = variantsOf(course, finding).map((variant, n): Curve => {
    const figures = ratesOf(course, scorer, variant);
    const name = variant === undefined ? 'all variants' : titled(variant, shadow);
    return { name, values: figures.map((one) => one?.value ?? null), band: n === 0 ? figures : undefined };
  });
  const wanted = objectives.find(({ measure }) => scorerOf(measure, active) === scorer)?.bound;
  const bound = wanted && ('atLeast' in wanted ? wanted.atLeast : 1 - wanted.atMost);
  const isShare = good !== null || is !== undefined;
  const dashed = bound === undefined ? '' : '; dashed: objective';
  return chart({
    title: goodName(scorer),
    unit: good !== null ? `good, 95% interval${dashed}` : isShare ? `share that is ${is}` : 'mean',
    ...{ labels, curves, isShare, bound, height: finding && FINDING_HEIGHT },
    since: hours.findLastIndex((hour) => hourMs(hour) <= Date.parse(finding?.since ?? '')),
  });
}

/** Returns the variants of a chart, with the finding's variants first; `undefined` stands for all together. */
function variantsOf({ reference, others }: Course, finding?: Finding): (string | undefined)[] {
  const worse = finding?.variants ?? [];
  const all = [...new Set([...worse, reference, ...others])].slice(0, finding ? 2 : MAX_CURVES - 1);
  if (worse.length > 0) return all;
  return all.length < 2 ? [undefined] : [undefined, ...all];
}

/** Returns a figure for each point; `null` without verdicts. */
function ratesOf({ hours, cells, served, window, active }: Course, scorer: string, variant?: string) {
  const own = variant === undefined ? served : cells.filter((one) => one.variant === variant);
  const groups = groupRates(own, { window, active, scorers: [scorer], by: 'hour' });
  return hours.map((at) => {
    const rate = groups.find(({ group }) => group === at)?.rates[0];
    return rate?.n ? (rate.good ?? rate.judge) : null;
  });
}

/** Returns the most frequent names with their sums, and the sum of the others. */
function stackOf(counts: readonly (Counts | undefined)[]): Curve[] {
  const of = (name: string): number[] => counts.map((one) => Math.max(0, one?.[name] ?? 0));
  const all = [...new Set(counts.flatMap((one) => Object.keys(one ?? {})))]
    .map((name) => ({ name, values: of(name) }))
    .filter(({ values }) => sum(values) > 0)
    .toSorted((a, b) => sum(b.values) - sum(a.values));
  const others = all.length > MAX_CURVES ? all.splice(MAX_CURVES - 1) : [];
  const values = counts.map((_, at) => sum(others.map((one) => one.values[at] ?? 0)));
  const shown = others.length > 0 ? [...all, { name: 'others', values }] : all;
  const text = (count: number): string => count.toLocaleString('en-US', { maximumFractionDigits: 2 });
  return shown.map((one) => ({ name: `${one.name} ${text(sum(one.values))}`, values: one.values }));
}

const spreadOf = (bins: readonly (LogBins | undefined)[]): Curve[] =>
  [0.5, 0.1, 0.9].map((share) => ({
    name: share === 0.5 ? 'median' : `${share * 100}%`,
    values: bins.map((one) => quantileOf(one ?? {}, share) ?? null),
  }));
