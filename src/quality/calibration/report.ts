/** Computes the figures of each scorer from labels and verdicts. */

import { cohensKappa, confusion } from '../../core/statistics/agreement.ts';
import { type Share, scoreInterval, weightedShare, wilson } from '../../core/statistics/share.ts';
import { whole } from '../../core/text/figure-text.ts';
import { countBy } from '../../core/values/counts.ts';
import { type ScorerValues, valueNames } from '../../core/values/scorer-values.ts';
import { sum } from '../../core/values/sum.ts';
import { goodValue } from '../../judge/scorers/values.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import type { Drift } from './drift.ts';
import type { Coverage, LabeledVerdict, Unanswered } from './types.ts';

/** With fewer labels, the intervals are too wide for most decisions: ±18 points at 30 labels. */
const MIN_LABELS = 30;
/** With fewer labels of either kind, TPR or TNR are hardly meaningful. */
const MIN_OF_EACH = 10;

const WEIGHTED = 'each label counts for the captures that it stands for, since some were likelier to be picked';

/** Returns the values in order. For numbers, returns the occurring values, ascending. */
function valueList(values: ScorerValues, pairs: readonly LabeledVerdict[]): string[] {
  if (values.kind !== 'number') return valueNames(values);
  const seen = new Set(pairs.flatMap(({ label, verdict }) => [Number(label), Number(verdict)]));
  return [...seen].sort((a, b) => a - b).map(String);
}

/** Guesses the values of a scorer that is not active, such as a guideline of another stack or a person's own. */
export function guessValues(given: readonly AssessmentValue[]): ScorerValues {
  if (given.every((value) => typeof value === 'boolean')) return { kind: 'boolean' };
  if (given.every((value) => typeof value === 'number')) {
    const numbers = given as number[];
    return { kind: 'number', min: Math.min(...numbers), max: Math.max(...numbers) };
  }
  const names = [...new Set(given.map(String))].sort();
  if (names.every((name) => name === 'yes' || name === 'no')) return { kind: 'yes-no' };
  return { kind: 'categories', values: names };
}

/**
 * Returns the weight of each pair. Pairs with different chances of a label are weighted by the captures that they
 * represent. Their sum is the number of pairs of equal weight with the same information (Kish 1965). Otherwise each
 * weight is 1.
 */
function countsOf(pairs: readonly LabeledVerdict[]): number[] {
  const weights = pairs.map(({ weight = 1 }) => weight);
  const total = sum(weights);
  const squares = sum(weights.map((weight) => weight * weight));
  const isEven = weights.every((weight) => Math.abs(weight * pairs.length - total) < 1e-9 * total);
  return weights.map((weight) => (isEven ? 1 : (weight * total) / squares));
}

/** A label and its verdict as text, with their weight. */
interface Rating {
  label: string;
  verdict: string;
  weight: number;
}

const weightOf = (ratings: readonly Rating[]): number => sum(ratings.map(({ weight }) => weight));

/** Returns a share with Wilson's interval at the number of pairs of equal weight with the same information. */
function shareOf(ratings: readonly Rating[], isHit: (rating: Rating) => boolean, largest = 0): Share | null {
  if (ratings.length === 0) return null;
  const sampled = weightedShare(ratings.map((rating) => ({ hit: isHit(rating), weight: rating.weight })));
  const { share, of } = { ...sampled, of: Math.min(sampled.of, weightOf(ratings) / largest) };
  return { ...scoreInterval(share, of), hits: Number((share * of).toFixed(9)), of };
}

/** Returns the figures of a value against all others, among pairs of which each has its own weight. */
function classFigures(value: string, ratings: readonly Rating[]) {
  // For a label that people gave, each verdict has its own weight. A verdict that did not occur might have had the
  // largest weight.
  const byVerdict = [...Map.groupBy(ratings, ({ verdict }) => verdict).values()];
  const largest = Math.max(...byVerdict.map((own) => weightOf(own) / own.length));
  const rated = (side: 'label' | 'verdict', is: boolean): Rating[] =>
    ratings.filter((rating) => (rating[side] === value) === is);
  const [people, judge] = [rated('label', true), rated('verdict', true)];
  const support = weightOf(people);
  const all = support + weightOf(judge);
  return {
    value,
    /** Number of people's labels with this value. */
    support,
    /** Share of people's labels with this value on which the judge agrees (recall). */
    sensitivity: shareOf(people, ({ verdict }) => verdict === value, largest),
    /** Share of people's other labels for which the judge also gave another value. */
    specificity: shareOf(rated('label', false), ({ verdict }) => verdict !== value, largest),
    /** Share of the judge's verdicts with this value on which people agree. */
    precision: shareOf(judge, ({ label }) => label === value),
    f1: all === 0 ? null : (2 * weightOf(people.filter(({ verdict }) => verdict === value))) / all,
  };
}

function notesOn({ n, confusion: table, kappa, positive, tpr, tnr, agreement }: ScorerFigures): string[] {
  const notes: string[] = [];
  if (agreement !== null && agreement.of !== n) notes.push(WEIGHTED);
  if (n === 0) return notes;
  const rows = table.counts.filter((row) => row.some((count) => count > 0));
  const columns = table.values.filter((_, column) => table.counts.some((row) => row[column]));
  if (n < MIN_LABELS) notes.push(`fewer than ${MIN_LABELS} labels, so the intervals are wide`);
  else if (positive !== undefined && rows.length > 1 && Math.min(tpr?.of ?? 0, tnr?.of ?? 0) < MIN_OF_EACH) {
    notes.push(`fewer than ${MIN_OF_EACH} labels of the rarer kind: collect more of them`);
  }
  if (kappa === null) notes.push('people and the judge always gave the same value, so kappa is not defined');
  else if (rows.length === 1) notes.push('people always gave the same value, so chance agreement cannot be separated');
  else if (columns.length === 1)
    notes.push('the judge always gave the same value: it does not distinguish good from bad');
  return notes;
}

type ScorerFigures = ReturnType<typeof scorerFigures>;

export type ScorerReport = ScorerFigures & {
  /** Limitations of the figures that a reader must know. */
  notes: string[];
};

function scorerFigures(name: string, scorer: ReportedScorer | undefined, given: Given) {
  const pairs = given.pairs.filter((pair) => pair.scorer === name);
  const unanswered = given.unanswered.filter((one) => one.scorer === name);
  const values = scorer?.values ?? guessValues(pairs.flatMap(({ label, verdict }) => [label, verdict]));
  const isNumber = values.kind === 'number';
  const counts = countsOf(pairs);
  const named = pairs.map(({ label, verdict }) => ({ label: String(label), verdict: String(verdict) }));
  const ratings = named.map((pair, index) => ({ ...pair, weight: counts[index] ?? 1 }));
  const list = valueList(values, pairs);
  const table = confusion(list, ratings);
  const positive = isNumber ? undefined : list[0];
  const classes = isNumber ? [] : list.map((value) => classFigures(value, ratings));
  const n = pairs.length;
  const ordered = isNumber ? 'quadratic' : values.kind === 'categories' && list.length > 2 ? 'linear' : undefined;
  return {
    name,
    version: scorer?.version,
    values,
    /** Number of labels with a verdict. */
    n,
    agreement: shareOf(ratings, ({ label, verdict }) => label === verdict),
    kappa: cohensKappa(table),
    /** Takes the distance of ordered values into account: linear for categories, quadratic for numbers. */
    weightedKappa: ordered === undefined || list.length < 2 ? null : cohensKappa(table, ordered),
    /** The positive value of TPR: `yes`, `true` or the first category. Absent for numbers. */
    positive,
    /** The value that is good. Absent for numbers and for scorers that are not active. */
    good: scorer === undefined || isNumber ? undefined : String(goodValue(scorer)),
    /** Share of people's positive labels on which the judge agrees. */
    tpr: classes[0]?.sensitivity ?? null,
    /** Share of people's other labels on which the judge agrees. */
    tnr: classes[0]?.specificity ?? null,
    classes,
    /** Each pair counts 1. */
    confusion: confusion(list, named),
    unanswered: countBy(unanswered, ({ reason }) => reason),
  };
}

function coverageNote(covered: readonly Coverage[] | undefined): string[] {
  if (covered === undefined) return [];
  const of = (field: 'judged' | 'all'): string => whole(sum(covered.map((stratum) => stratum[field])));
  return [
    `the figures are of ${of('judged')} of the ${of('all')} judged traces: none of the picked traces of the others has a label`,
  ];
}

export interface CalibrationReport {
  generatedAt: string;
  source: { kind: 'mlflow' | 'labels' | 'anchors' | 'groundTruth'; where: string };
  /** Number of verdicts by judge. */
  judges: Record<string, number>;
  overall: { n: number; agreement: Share | null };
  scorers: ScorerReport[];
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  spend?: { calls: number; inputTokens: number; outputTokens: number; usd: number | null };
  drift?: Drift;
}

type ReportedScorer = Pick<JudgeScorer, 'name' | 'values' | 'version' | 'passes'>;

interface Given extends Pick<CalibrationReport, 'source' | 'pairs' | 'unanswered' | 'spend'> {
  scorers: readonly ReportedScorer[];
  /** For each scorer whose labels represent some of its judged traces: the strata. */
  covered?: ReadonlyMap<string, Coverage[]>;
}

export function calibrationReport(given: Given): CalibrationReport {
  const { source, pairs, unanswered, spend } = given;
  const names = new Set([...pairs, ...unanswered].map(({ scorer }) => scorer));
  const active = given.scorers.map(({ name }) => name);
  // Active scorers keep their order. Others follow by name.
  const order = [
    ...active.filter((name) => names.has(name)),
    ...[...names].filter((name) => !active.includes(name)).sort(),
  ];
  const scorers = order.map((name) => {
    const scorer = given.scorers.find((one) => one.name === name);
    const figures = scorerFigures(name, scorer, given);
    return { ...figures, notes: [...notesOn(figures), ...coverageNote(given.covered?.get(name))] };
  });
  return {
    generatedAt: new Date().toISOString(),
    source,
    judges: countBy(pairs, ({ judge = 'unknown' }) => judge),
    overall: { n: pairs.length, agreement: wilson(pairs.filter(({ agrees }) => agrees).length, pairs.length) },
    ...{ scorers, pairs, unanswered, spend },
  };
}
