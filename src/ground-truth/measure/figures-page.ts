/** The figures of labeled predictions, formatted for terminals and for the page about an endpoint. */

import { points, type Shown, whole } from '../../core/text/figure-text.ts';
import { count, measured } from '../../core/text/html-page.ts';
import { block, type Cell, type Page, type Part, section, table } from '../../core/text/page.ts';
import {
  type AverageFigures,
  type GroupFigures,
  measureName,
  type TruthFigures,
  type TruthGroup,
  textOf,
  whysOf,
} from './figures.ts';

/** Maximum number of variants with details. */
const MAX_DETAILED = 10;
/** Maximum number of classes with their own figures, or a row in the confusion matrix. */
const MAX_CLASSES = 10;
/** Values of a column. */
const MAX_VALUES = 20;

const titleOf = ({ group, shadow }: TruthGroup, by: string | undefined): string =>
  by === undefined ? 'all' : `${group}${shadow ? ' (shadow)' : ''}`;

/** Returns a row for each group. @param by the kind of groups; `undefined`: a single group has all rows */
export function truthTable({ groups }: Pick<TruthFigures, 'groups'>, by: string | undefined): Part {
  const names = [...new Set(groups.flatMap(({ measures }) => Object.keys(measures)))];
  const rows = groups.map((one) => {
    const cells = names.map((name) => measured(one.measures[name], textOf(name)));
    return [titleOf(one, by), count(one.rows), ...cells];
  });
  return table(rows, [by ?? 'rows', 'labels', ...names.map(measureName)]);
}

/** @param isPublic leaves out reasons that may quote captures */
export function truthPage(figures: TruthFigures, by: string | undefined, isPublic = false): Page {
  const { kind, why, threshold, groups, leftOut } = figures;
  // For hours and days, only the change of the figures matters.
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
    block(truthTable(figures, by)),
    ...detailed.map((group) =>
      section(
        by === undefined ? '' : `${by} ${titleOf(group, by)}`,
        ...notesOn(group, isPublic),
        group.classes && classesPart(group.classes),
        ...Object.entries(group.groups ?? {}).map(([column, values]) => groupsPart(column, values)),
      ),
    ),
  ];
}

/** Returns notes that a reader needs to interpret the figures. */
function notesOn(figures: TruthGroup, isPublic: boolean): string[] {
  const { compared, notCompared, measures, classes } = figures;
  const whys = whysOf(figures, isPublic);
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
  return [...Object.entries(notCompared).map(([why, rows]) => `${whole(rows)} not compared: ${why}`), ...whys];
}

function classesPart({ each, macro, weighted, confusion }: NonNullable<TruthGroup['classes']>): Part {
  const most = each.toSorted((a, b) => b.support - a.support).slice(0, MAX_CLASSES);
  const shown = each.filter((one) => most.includes(one));
  const names = shown.map((one) => one.class);
  const countOf = (label: string, predicted: string): Cell =>
    count(confusion.find((one) => one.label === label && one.predicted === predicted)?.count);
  const averages = ({ precision, recall, f1 }: AverageFigures): Cell[] =>
    [precision, recall, f1].map((one) => measured(one));
  const rows = shown.map((one) => [one.class, ...names.map((name) => countOf(one.class, name)), ...averages(one)]);
  const means = Object.entries(each.length < 2 ? {} : { macro, weighted }).map(([name, average]) => [
    name,
    ...names.map(() => ''),
    ...averages(average),
  ]);
  return section(
    'Labels by what was predicted',
    table([...rows, ...means], ['label', ...names.map((name) => `→ ${name}`), 'precision', 'recall', 'F1']),
    each.length > names.length && `The ${names.length} of ${each.length} classes with the most labels.`,
  );
}

/** Returns a difference in points, marked `lower` or `higher` if its interval excludes 0. */
function differenceCell(of: Shown | undefined): Cell {
  if (of === undefined) return '';
  const { text, html } = measured(of, points);
  const said = (of.high ?? 1) < 0 ? ', lower' : (of.low ?? -1) > 0 ? ', higher' : '';
  return { text: text + said, html: html + said };
}

function groupsPart(column: string, values: readonly GroupFigures[]): Part {
  const rows = values
    .slice(0, MAX_VALUES)
    .map((one) => [
      one.value,
      count(one.rows),
      ...(['selectionRate', 'truePositiveRate'] as const).flatMap((rate) => [
        measured(one[rate]),
        differenceCell(one.difference?.[rate]),
      ]),
    ]);
  const against = `against ${values[0]?.value}`;
  return section(
    `By ${column}`,
    table(rows, [column, 'labels', 'selection rate', against, 'true positive rate', `${against} `]),
    values.length > MAX_VALUES && `and ${values.length - MAX_VALUES} more values`,
  );
}
