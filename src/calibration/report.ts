/** Labels and verdicts → figures by scorer. */

import type { JudgeScorer, ScorerValues } from '../judge/types.ts';
import type { AssessmentValue } from '../mlflow/types.ts';
import { share } from '../shared/share-interval.ts';
import { classFigures, cohensKappa, confusion, numberFigures } from './statistics.ts';
import type { CalibrationReport, LabeledVerdict, ScorerReport, Unanswered } from './types.ts';

/** With fewer labels the intervals are so wide that the figures decide little: ±18 points at 30. */
const MIN_LABELS = 30;
/** With fewer of either kind, TPR or TNR says little. */
const MIN_OF_EACH = 10;

/** Values in their order; numbers that occur, ascending, for whole numbers with the gaps between them. */
function valueList(values: ScorerValues, pairs: readonly LabeledVerdict[]): string[] {
  switch (values.kind) {
    case 'yes-no':
      return ['yes', 'no'];
    case 'boolean':
      return ['true', 'false'];
    case 'categories':
      return [...values.values];
    case 'number': {
      const seen = [...new Set(pairs.flatMap(({ label, verdict }) => [Number(label), Number(verdict)]))];
      return seen.sort((a, b) => a - b).map(String);
    }
  }
}

/** Values of a scorer that is not among those in force, from what was given: a guideline of another stack, a person's own. */
export function guessValues(given: readonly AssessmentValue[]): ScorerValues {
  if (given.every((value) => typeof value === 'boolean')) return { kind: 'boolean' };
  if (given.every((value) => typeof value === 'number')) {
    const numbers = given as number[];
    return { kind: 'number', min: Math.min(...numbers), max: Math.max(...numbers) };
  }
  const words = [...new Set(given.map(String))].sort();
  if (words.every((word) => word === 'yes' || word === 'no')) return { kind: 'yes-no' };
  return { kind: 'categories', values: words };
}

function notesOn(report: Omit<ScorerReport, 'notes'>): string[] {
  const notes: string[] = [];
  const { n, confusion: table, kappa, positive, tpr, tnr } = report;
  if (n === 0) return notes;
  const columns = table?.values.map((_, j) => table.counts.reduce((sum, row) => sum + (row[j] ?? 0), 0)) ?? [];
  const rows = table?.counts.map((row) => row.reduce((sum, count) => sum + count, 0)) ?? [];
  const single = (totals: number[]): boolean => totals.filter((count) => count > 0).length === 1;
  if (n < MIN_LABELS) notes.push(`fewer than ${MIN_LABELS} labels, so the intervals are wide`);
  else if (positive !== undefined && !single(rows) && Math.min(tpr?.of ?? 0, tnr?.of ?? 0) < MIN_OF_EACH) {
    notes.push(`fewer than ${MIN_OF_EACH} labels of the rarer kind: collect more of them`);
  }
  if (kappa === null) notes.push('people and the judge gave one value throughout, so kappa is not defined');
  else if (single(rows)) notes.push('people gave one value throughout: agreement by chance cannot be told apart');
  else if (single(columns)) notes.push('the judge gave one value throughout: it does not tell good from bad');
  return notes;
}

function scorerReport(
  name: string,
  values: ScorerValues,
  pairs: readonly LabeledVerdict[],
  unanswered: readonly Unanswered[],
  version?: string,
): ScorerReport {
  const words = pairs.map(({ label, verdict }) => ({ label: String(label), verdict: String(verdict) }));
  const list = valueList(values, pairs);
  const table = list.length === 0 ? null : confusion(list, words);
  const positive = values.kind === 'number' ? undefined : list[0];
  const classes = table === null || values.kind === 'number' ? [] : classFigures(table);
  const first = classes[0];
  const n = pairs.length;
  const ordered =
    values.kind === 'number' ? 'quadratic' : values.kind === 'categories' && list.length > 2 ? 'linear' : undefined;
  const reasons: Record<string, number> = {};
  for (const { reason } of unanswered) reasons[reason] = (reasons[reason] ?? 0) + 1;
  const report: Omit<ScorerReport, 'notes'> = {
    name,
    version,
    values,
    n,
    agreement: share(pairs.filter(({ agrees }) => agrees).length, n),
    kappa: table === null ? null : cohensKappa(table),
    weightedKappa: table === null || ordered === undefined || list.length < 2 ? null : cohensKappa(table, ordered),
    positive,
    tpr: first?.sensitivity ?? null,
    tnr: first?.specificity ?? null,
    positiveShare: {
      people: positive === undefined ? null : share(words.filter(({ label }) => label === positive).length, n),
      judge: positive === undefined ? null : share(words.filter(({ verdict }) => verdict === positive).length, n),
    },
    classes,
    confusion: table,
    numbers:
      values.kind === 'number'
        ? numberFigures(pairs.map(({ label, verdict }) => ({ label: Number(label), verdict: Number(verdict) })))
        : null,
    unanswered: reasons,
  };
  return { ...report, notes: notesOn(report) };
}

export function calibrationReport(input: {
  source: CalibrationReport['source'];
  scorers: readonly Pick<JudgeScorer, 'name' | 'values' | 'version'>[];
  pairs: readonly LabeledVerdict[];
  unanswered: readonly Unanswered[];
  spend?: CalibrationReport['spend'];
  now?: Date;
}): CalibrationReport {
  const { source, pairs, unanswered, spend } = input;
  const known = new Map(input.scorers.map((scorer) => [scorer.name, scorer]));
  const names = new Set([...pairs, ...unanswered].map(({ scorer }) => scorer));
  // Scorers in force keep their order, others follow by name.
  const order = [
    ...[...known.keys()].filter((name) => names.has(name)),
    ...[...names].filter((name) => !known.has(name)).sort(),
  ];
  const scorers = order.map((name) => {
    const own = pairs.filter(({ scorer }) => scorer === name);
    const values = known.get(name)?.values ?? guessValues(own.flatMap(({ label, verdict }) => [label, verdict]));
    return scorerReport(
      name,
      values,
      own,
      unanswered.filter(({ scorer }) => scorer === name),
      known.get(name)?.version,
    );
  });
  const judges: Record<string, number> = {};
  for (const { judge = 'unknown' } of pairs) judges[judge] = (judges[judge] ?? 0) + 1;
  return {
    generatedAt: (input.now ?? new Date()).toISOString(),
    source,
    judges,
    overall: { n: pairs.length, agreement: share(pairs.filter(({ agrees }) => agrees).length, pairs.length) },
    scorers,
    pairs: [...pairs],
    unanswered: [...unanswered],
    spend,
  };
}

/** Notes with the scorers they are about: one line where many scorers share one. */
export const sharedNotes = (scorers: readonly ScorerReport[]): { note: string; scorers: string[] }[] => {
  const byNote = new Map<string, string[]>();
  for (const { name, notes } of scorers) {
    for (const note of notes) byNote.set(note, [...(byNote.get(note) ?? []), name]);
  }
  return [...byNote].map(([note, names]) => ({ note, scorers: names }));
};
