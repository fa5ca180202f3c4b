/** The reports of ground truth runs, and the labels that wait, as text for terminals of any width. */

import type { LabelCounts } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { namedCounts, singleLine, type TextOptions, wrappedText } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
import { Page } from '../cli/output.ts';

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
  return singleLine(path.slice(path.indexOf('/') + 1) || `s3://${bucket}/${key}`);
}

/** Formats the counts of the files, which add up to their lines, the faults by line, and the labels that were replaced. */
export function truthReportText(report: TruthReport, out: TextOptions): string {
  const { run, status, error, files, noted, notNoted, notedBy } = report;
  const page = new Page(out);
  page.section(`── ${run}: ${status} ──`);
  if (error !== undefined) page.add(`${error.name}: ${error.message}`);
  if (status === 'running') page.add('Its counts come when it has ended.');
  addLabelFiles(page, files);
  if (noted > 0) page.add(`${many(noted, 'label')} ${noted === 1 ? 'was' : 'were'} written to MLflow.`);
  const not = namedCounts(notNoted);
  if (not !== '') page.add(`Not written to MLflow: ${not}.`);
  if (notedBy !== undefined) page.add(`The run ${notedBy} writes these labels to MLflow.`);
  return page.text();
}

/** Formats the counts of label files, their faults by line, and the labels that were replaced. */
export function labelFilesText(
  files: readonly LabelFileState[],
  out: TextOptions,
  nameOf: typeof labelFileName,
): string {
  const page = new Page(out);
  addLabelFiles(page, files, nameOf);
  return page.text();
}

/** Outcomes that no file has are left out. */
function addLabelFiles(page: Page, files: readonly LabelFileState[], nameOf = labelFileName): void {
  const used = OUTCOMES.filter((name) => name === 'lines' || files.some(({ counts }) => counts[name] > 0));
  const rows = files.map((file) => [nameOf(file), ...used.map((name) => whole(file.counts[name]))]);
  const sums = used.map((name) => whole(sum(files.map(({ counts }) => counts[name]))));
  page.table(['file', ...used], files.length > 1 ? [...rows, ['all', ...sums]] : rows);
  for (const file of files) {
    const { counts, error, faults, replacedLabels } = file;
    const name = nameOf(file);
    const addFirst = (lines: readonly string[], all: number, what: string): void => {
      for (const line of lines.slice(0, MAX_SHOWN)) page.add(line);
      if (all > MAX_SHOWN) page.add(`${name}: and ${whole(all - MAX_SHOWN)} more${what}`);
    };
    const wrong = faults.map(({ line, name: fault, message }) => `${name}:${line}: ${fault}: ${message}`);
    if (error !== undefined) page.add(`${name}: not read: ${error.name}: ${error.message}`);
    else addFirst(wrong, counts.invalid + counts.ambiguous, '');
    const replaced = replacedLabels.map(
      ({ line, id, from, to }) => `${name}:${line}: ${id} was ${from}, and is ${to} now`,
    );
    addFirst(replaced, counts.replaced, ' were replaced');
  }
}

/** Says how many labels wait for their predictions; nothing if none does. */
export function waitingText({ labels, files, since, more }: WaitingLabels, { width }: TextOptions): string {
  if (labels === 0) return '';
  const count = `${more ? 'More than ' : ''}${many(labels, 'label')} of ${many(files, 'file')}`;
  const time = since?.slice(0, '2026-11-20T10:00'.length).replace('T', ' ');
  const text = `${count} ${labels === 1 ? 'has' : 'have'} no matching prediction yet (waiting since ${time} UTC).`;
  return wrappedText([text], width);
}
