/** The figures of labeled predictions as a page. */
import { bracketed, whole } from '../../src/core/text/figure-text.ts';
import {
  type AverageFigures,
  type Figure,
  type GroupFigures,
  measureName,
  NUMBERS,
  type TruthFigures,
  type TruthGroup,
  whysOf,
} from '../../src/ground-truth/measure/figures.ts';
import { block, type Page, type Part, section, table } from '../cli/page.ts';

/** Variants whose details are shown. */
const MAX_DETAILED = 10;
/** Classes that have figures of their own, or a place in the confusion matrix. */
const MAX_CLASSES = 10;
/** Values of a column. */
const MAX_VALUES = 20;

const titleOf = ({ group, shadow }: TruthGroup, by: string | undefined): string =>
  by === undefined ? 'all' : `${group}${shadow ? ' (shadow)' : ''}`;
const percent = (share: number): string => (share * 100).toFixed(1);

/** `78.0% (72.3–82.8)`, or a dash. */
const figureText = (figure: Figure | null, isNumber = false): string =>
  isNumber ? bracketed(figure, (value) => value.toPrecision(4)) : bracketed(figure, percent, '%');

/** @param by what the groups are; `undefined`: there is one, of all rows */
export function truthPage({ kind, why, threshold, groups, leftOut }: TruthFigures, by: string | undefined): Page {
  const names = [...new Set(groups.flatMap(({ measures }) => Object.keys(measures)))];
  const rows = groups.map((one) => {
    const cells = names.map((name) => figureText(one.measures[name] ?? null, NUMBERS.includes(name)));
    return [titleOf(one, by), whole(one.rows), ...cells];
  });
  // Of hours and days, what matters is how the figures change.
  const detailed = by === 'hour' || by === 'day' ? [] : groups.slice(0, MAX_DETAILED);
  const positive = groups.find(({ classes }) => classes !== undefined)?.classes?.positive;
  const ofClass =
    positive === null
      ? 'Precision, recall and F1 are means of all classes.'
      : `Precision, recall, F1 and AUC are those of class ${positive}.`;
  const notes = [
    `The model predicts ${kind}: ${why}.`,
    threshold !== undefined && `A probability of ${threshold} or more counts as ${positive}.`,
    kind === 'classes' && groups.length > 0 && ofClass,
    'In brackets: 95% intervals.',
    ...Object.entries(leftOut).map(
      ([variant, rows]) => `Left out: ${whole(rows)} labels of the shadow variant ${variant}.`,
    ),
  ];
  return [
    notes.filter(Boolean).join(' '),
    block(table([by ?? '', 'labels', ...names.map(measureName)], rows)),
    ...detailed.map((group) =>
      section(
        by === undefined ? '' : `${by} ${titleOf(group, by)}`,
        ...notesOn(group),
        group.classes && classesPart(group.classes),
        ...Object.entries(group.groups ?? {}).map(([column, values]) => groupsPart(column, values)),
      ),
    ),
  ];
}

/** Returns what a reader must know of figures beside them. */
function notesOn(figures: TruthGroup): string[] {
  const { compared, notCompared, measures, classes } = figures;
  const whys = whysOf(figures);
  const { each = [], scored: { rows: scored, used } = { rows: 0, used: 0 } } = classes ?? {};
  const hasAuc = typeof measures.auc?.value === 'number';
  if (hasAuc && scored < compared)
    whys.push(`AUC: of the ${whole(scored)} of ${whole(compared)} rows that have scores`);
  if (used < scored) whys.push(`AUC: of a random sample of ${whole(used)} of ${whole(scored)} rows with scores`);
  const list = each.find(({ class: name }) => name.startsWith('['));
  if (list !== undefined) whys.push(`The class ${list.class} may be a part of a list that was not read`);
  const strangers = each.filter(({ support, predicted }) => support === 0 && predicted > 0);
  const named = strangers.map((one) => one.class).slice(0, MAX_CLASSES);
  if (named.length > 0 && each.length > strangers.length + 1)
    whys.push(`Predicted classes that no label has: ${named.join(', ')}`);
  return [...Object.entries(notCompared).map(([why, count]) => `${whole(count)} not compared: ${why}`), ...whys];
}

function classesPart({ each, macro, weighted, confusion }: NonNullable<TruthGroup['classes']>): Part {
  const most = each.toSorted((a, b) => b.support - a.support).slice(0, MAX_CLASSES);
  const shown = each.filter((one) => most.includes(one));
  const names = shown.map((one) => one.class);
  const cell = (label: string, predicted: string): string =>
    whole(confusion.find((one) => one.label === label && one.predicted === predicted)?.count ?? 0);
  const texts = ({ precision, recall, f1 }: AverageFigures): string[] =>
    [precision, recall, f1].map((one) => figureText(one));
  const rows = shown.map((one) => [`label ${one.class}`, ...names.map((name) => cell(one.class, name)), ...texts(one)]);
  const means = Object.entries(each.length < 2 ? {} : { macro, weighted }).map(([name, average]) => [
    name,
    ...names.map(() => ''),
    ...texts(average),
  ]);
  return block(
    table(['', ...names.map((name) => `→ ${name}`), 'precision', 'recall', 'F1'], [...rows, ...means]),
    each.length > names.length && `The ${names.length} of ${each.length} classes with the most labels.`,
  );
}

function groupsPart(column: string, values: readonly GroupFigures[]): Part {
  const points = ({ value, low, high }: Figure): string => {
    const text = (share: number): string => `${share > 0 ? '+' : ''}${percent(share)}`;
    return value === null || low === null || high === null ? '–' : `${text(value)} (${text(low)}…${text(high)})`;
  };
  const rows = values
    .slice(0, MAX_VALUES)
    .map((one) => [
      `${column} = ${one.value}`,
      whole(one.rows),
      ...(['selectionRate', 'truePositiveRate'] as const).flatMap((rate) => [
        figureText(one[rate]),
        one.difference ? points(one.difference[rate]) : '',
      ]),
    ]);
  const against = `against ${values[0]?.value}`;
  return block(
    table(['', 'labels', 'selection rate', against, 'true positive rate', against], rows),
    values.length > MAX_VALUES && `and ${values.length - MAX_VALUES} more values`,
  );
}
