/** Pages of ground truth: runs, the labels that wait, and the figures. */

import type { LabelCounts } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { bracketed, many, whole } from '../../src/core/text/figure-text.ts';
import { namedCounts } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
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
import { block, firstOf, type Page, type Part, section, table } from '../cli/page.ts';
import type { LabelFileState, TruthReport, WaitingLabels } from '../operate/truth-run.ts';

/** Faults, and replaced labels, that are shown of a file. */
const MAX_SHOWN = 10;

const OUTCOMES: readonly (keyof LabelCounts)[] = [
  ...(['lines', 'joined', 'repeated', 'replaced', 'outdated'] as const),
  ...(['waiting', 'unknown', 'ambiguous', 'invalid'] as const),
];

/** Returns what a person calls a label file: its path below an upload, or its address. */
export function labelFileName({ bucket, key }: Pick<LabelFileState, 'bucket' | 'key'>): string {
  // Behind the folder of the upload.
  const path = key.startsWith(truthKeys.uploadsPrefix) ? key.slice(truthKeys.uploadsPrefix.length) : '';
  return path.slice(path.indexOf('/') + 1) || `s3://${bucket}/${key}`;
}

/** The counts of the files, which add up to their lines, the faults by line, and the labels that were replaced. */
export function truthReportPage({ run, status, error, files, noted, notNoted, notedBy }: TruthReport): Page {
  const not = namedCounts(notNoted);
  return [
    section(
      `${run}: ${status}`,
      error && `${error.name}: ${error.message}`,
      status === 'running' && 'Its counts come when it has ended.',
      ...labelFilesPage(files),
      noted > 0 && `${many(noted, 'label')} ${noted === 1 ? 'was' : 'were'} written to MLflow.`,
      not && `Not written to MLflow: ${not}.`,
      notedBy && `The run ${notedBy} writes these labels to MLflow.`,
    ),
  ];
}

/** The counts of label files, without outcomes that no file has, their faults by line, and the labels that were replaced. */
export function labelFilesPage(files: readonly LabelFileState[], nameOf = labelFileName): Page {
  const used = OUTCOMES.filter((name) => name === 'lines' || files.some(({ counts }) => counts[name] > 0));
  const rows = files.map((file) => [nameOf(file), ...used.map((name) => whole(file.counts[name]))]);
  const sums = used.map((name) => whole(sum(files.map(({ counts }) => counts[name]))));
  const remarks = files.flatMap((file) => {
    const { counts, error, faults, replacedLabels } = file;
    const name = nameOf(file);
    const wrong = faults.map(({ line, name: fault, message }) => `${name}:${line}: ${fault}: ${message}`);
    const replaced = replacedLabels.map(
      ({ line, id, from, to }) => `${name}:${line}: ${id} was ${from}, and is ${to} now`,
    );
    return [
      ...(error === undefined
        ? firstOf(MAX_SHOWN, wrong, ` of ${name}`, counts.invalid + counts.ambiguous)
        : [`${name}: not read: ${error.name}: ${error.message}`]),
      ...firstOf(MAX_SHOWN, replaced, ` of ${name} were replaced`, counts.replaced),
    ];
  });
  return [table([...rows, files.length > 1 && ['all', ...sums]], ['file', ...used]), ...remarks];
}

/** Says how many labels wait for their predictions; nothing if none does. */
export function waitingPart({ labels, files, since, more }: WaitingLabels): Part {
  const count = `${more ? 'More than ' : ''}${many(labels, 'label')} of ${many(files, 'file')}`;
  const time = since?.slice(0, '2026-11-20T10:00'.length).replace('T', ' ');
  const text = `${count} ${labels === 1 ? 'has' : 'have'} no matching prediction yet (waiting since ${time} UTC).`;
  return block(labels > 0 && text);
}

// ----------------------------------------------------------------------------------------------------------- figures

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
    block(table(rows, [by ?? '', 'labels', ...names.map(measureName)])),
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
    table([...rows, ...means], ['', ...names.map((name) => `→ ${name}`), 'precision', 'recall', 'F1']),
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
    table(rows, ['', 'labels', 'selection rate', against, 'true positive rate', against]),
    values.length > MAX_VALUES && `and ${values.length - MAX_VALUES} more values`,
  );
}
