/** True answers on the page: figures by variant, errors by class, calibration, and what differs between groups. */

import { isolated } from '../core/text/html-page.ts';
import {
  type Figure,
  type GroupFigures,
  measureName,
  type TruthFigures,
  type TruthGroup,
} from '../ground-truth/measure/figures.ts';
import { percent, textOf } from './facts.ts';
import { difference, measured, sheet, whole } from './page-parts.ts';

/** Classes with a row of their own, as on the terminal. */
const MAX_CLASSES = 10;

export function truthSections({ all, byVariant }: { all: TruthFigures; byVariant: TruthFigures }): string {
  const [total] = all.groups;
  if (total === undefined) return '';
  const names = Object.keys(total.measures);
  const rows = [total, ...(byVariant.groups.length > 1 ? byVariant.groups : [])].map((group) => [
    isolated(`${group.group}${group.shadow ? ' (shadow)' : ''}`),
    whole(group.rows),
    ...names.map((name) => measured(group.measures[name], textOf(name))),
  ]);
  const head = ['variant', '#labels', ...names.map((name) => measureName(name))];
  const note = `The model predicts ${all.kind}: ${all.why}. In brackets: 95% intervals.`;
  const groups = Object.entries(total.groups ?? {}).map(([column, values]) => groupSection(column, values));
  return [
    sheet('True answers', note, head, rows),
    ...(total.classes ? classSections(total.classes) : []),
    ...groups,
  ].join('\n');
}

function classSections({ each, confusion, calibration = [], positive }: NonNullable<TruthGroup['classes']>): string[] {
  const shown = each.toSorted((a, b) => b.support - a.support).slice(0, MAX_CLASSES);
  const names = shown.map((one) => one.class);
  const cell = (label: string, predicted: string): string => {
    const count = whole(confusion.find((one) => one.label === label && one.predicted === predicted)?.count);
    return label === predicted ? `<b>${count}</b>` : count;
  };
  const most = each.length > names.length ? ` The ${names.length} of ${each.length} classes with the most labels.` : '';
  const isTrue = (predicted: number, { low, high }: Figure): string =>
    (low ?? 0) > predicted
      ? '▲ predicted too low'
      : (high ?? 1) < predicted
        ? '▼ predicted too high'
        : '✓ as predicted';
  return [
    sheet(
      'Confusion matrix',
      `Labels by what was predicted; in bold, what was right.${most}`,
      ['label', ...names.map((name) => `#predicted ${name}`)],
      names.map((label) => [isolated(label), ...names.map((predicted) => cell(label, predicted))]),
    ),
    sheet(
      'Calibration',
      `By tenths of the predicted probability of ${positive}: its mean, and how often ${positive} was found.`,
      ['predicted', 'found', '#labels', 'so it is'],
      calibration.map(({ predicted, found, rows }) => [
        percent(predicted),
        measured(found),
        whole(rows),
        isTrue(predicted, found),
      ]),
    ),
  ];
}

/** What clearly differs comes first. */
function groupSection(column: string, values: readonly GroupFigures[]): string {
  const differences = ({ difference: of }: GroupFigures): Figure[] => Object.values(of ?? {});
  const clear = (one: GroupFigures): number =>
    differences(one).filter(({ low, high }) => (low ?? -1) > 0 || (high ?? 1) < 0).length;
  const against = (one: Figure | undefined): string => {
    if (one === undefined || one.value === null || one.low === null || one.high === null) return '–';
    return difference({ value: one.value, low: one.low, high: one.high }, ['lower', 'higher']);
  };
  const first = `against ${values[0]?.value}`;
  return sheet(
    `By ${column}`,
    'How often the positive class is predicted, and how often it is found; differences in points.',
    [column, '#labels', 'selection rate', first, 'true positive rate', `${first} `],
    values
      .toSorted((a, b) => clear(b) - clear(a))
      .map((one) => [
        isolated(one.value),
        whole(one.rows),
        measured(one.selectionRate),
        against(one.difference?.selectionRate),
        measured(one.truePositiveRate),
        against(one.difference?.truePositiveRate),
      ]),
  );
}
