/** True answers on the page: figures by variant, errors by class, calibration, and what differs between groups. */

import { percent, points, type Shown } from '../core/text/figure-text.ts';
import { isolated, section } from '../core/text/html-page.ts';
import { chart } from '../core/text/small-chart.ts';
import {
  type GroupFigures,
  measureName,
  type TruthFigures,
  type TruthGroup,
  whysOf,
} from '../ground-truth/measure/figures.ts';
import type { TimeWindow } from '../quality/counts-store.ts';
import { windowText } from '../quality/rates-text.ts';
import { textOf } from './facts.ts';
import { measured, sheet, whole } from './page-elements.ts';

/** Classes with a row of their own, as on the terminal. */
const MAX_CLASSES = 10;

export type TruthFacts = { labeled: TimeWindow } & Record<'all' | 'byVariant', TruthFigures>;

export function truthSections({ all, byVariant, labeled }: TruthFacts): string {
  const [total] = all.groups;
  if (total === undefined) return '';
  const names = Object.keys(total.measures);
  const rows = [total, ...(byVariant.groups.length > 1 ? byVariant.groups : [])].map((group) => [
    isolated(`${group.group}${group.shadow ? ' (shadow)' : ''}`),
    whole(group.rows),
    ...names.map((name) => measured(group.measures[name], textOf(name))),
  ]);
  const head = ['variant', '#labels', ...names.map((name) => measureName(name))];
  const of = `Labels of the predictions of ${windowText(labeled)}.`;
  // Others may quote what captures say.
  const told = whysOf(total, true)
    .map((why) => ` ${why}.`)
    .join('');
  const note = `${of} The model predicts ${all.kind}: ${all.why}. In brackets: 95% intervals.${told}`;
  return [
    sheet('True answers', note, head, rows),
    ...(total.classes ? classSections(total.classes) : []),
    ...Object.entries(total.groups ?? {}).map(([column, values]) => groupSection(column, values)),
  ].join('\n');
}

function classSections({ each, confusion, calibration = [], positive }: NonNullable<TruthGroup['classes']>): string[] {
  const names = each.toSorted((a, b) => b.support - a.support).map((one) => one.class);
  const shown = names.slice(0, MAX_CLASSES);
  const cell = (label: string, predicted: string): string => {
    const count = whole(confusion.find((one) => one.label === label && one.predicted === predicted)?.count);
    return label === predicted ? `<b>${count}</b>` : count;
  };
  const most = names.length > MAX_CLASSES ? ` The ${MAX_CLASSES} of ${names.length} classes with the most labels.` : '';
  const found = calibration.map((one) => one.found);
  const curve = chart({
    title: 'Predicted and found',
    unit: `share that is ${positive}, 95% interval, by the predicted probability`,
    labels: calibration.map(({ predicted }) => percent(predicted)),
    curves: [
      { name: 'found', values: found.map(({ value }) => value), band: found },
      { name: 'as predicted', values: calibration.map(({ predicted }) => predicted) },
    ],
    isShare: true,
  });
  return [
    sheet(
      'Confusion matrix',
      `Labels by what was predicted; in bold, what was right.${most}`,
      ['label', ...shown.map((name) => `#predicted ${name}`)],
      shown.map((label) => [isolated(label), ...shown.map((predicted) => cell(label, predicted))]),
    ),
    curve === '' ? '' : section('Calibration', curve),
  ];
}

/** A difference in points, and whether its interval excludes 0, by a sign and as text. */
function difference(of: Shown | undefined): string {
  const { low, high } = of ?? {};
  if (low == null || high == null) return '–';
  const said = high < 0 ? '▼ lower' : low > 0 ? '▲ higher' : '= no clear difference';
  return `${measured(of, points)} <span class="soft">${said}</span>`;
}

/** What clearly differs comes first. */
function groupSection(column: string, values: readonly GroupFigures[]): string {
  const clear = ({ difference: of }: GroupFigures): number =>
    Object.values(of ?? {}).filter(({ low, high }) => (low ?? -1) > 0 || (high ?? 1) < 0).length;
  const rates = ['selectionRate', 'truePositiveRate'] as const;
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
        ...rates.flatMap((rate) => [measured(one[rate]), difference(one.difference?.[rate])]),
      ]),
  );
}
