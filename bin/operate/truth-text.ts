/** What became of label files, as text for terminals of any width. */
import type { LabelCounts } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { type TableOptions, tableText } from '../../src/core/text/table-text.ts';
import { singleLine, wrappedText } from '../../src/core/text/terminal-text.ts';
import type { LabelFileState, TruthReport, WaitingLabels } from './truth-run.ts';

/** Faults, and replaced labels, that are shown of a file. */
const MAX_SHOWN = 10;

const OUTCOMES: readonly (keyof LabelCounts)[] = [
  ...(['lines', 'joined', 'repeated', 'replaced', 'outdated'] as const),
  ...(['waiting', 'unknown', 'ambiguous', 'invalid'] as const),
];

const whole = (count: number): string => count.toLocaleString('en-US');

/** Returns what a person calls a label file: its path below an upload, or its address. */
export function labelFileName({ bucket, key }: Pick<LabelFileState, 'bucket' | 'key'>): string {
  // Behind the folder of the upload.
  const path = key.startsWith(truthKeys.uploadsPrefix) ? key.slice(truthKeys.uploadsPrefix.length) : '';
  return singleLine(path.slice(path.indexOf('/') + 1) || `s3://${bucket}/${key}`);
}

/** Formats the counts of the files, which add up to their lines, the faults by line, and the labels that were replaced. */
export function truthReportText({ run, status, error, files, ...written }: TruthReport, options: TableOptions): string {
  const lines = [
    options.style('bold', `── ${singleLine(run)}: ${status} ──`),
    ...(error === undefined ? [] : [singleLine(`${error.name}: ${error.message}`)]),
    ...(status === 'running' ? ['Its counts come when it has ended.'] : []),
  ];
  return (
    wrappedText(lines, options.width) + labelFilesText(files, options) + wrappedText(notedLines(written), options.width)
  );
}

/** A report with what a person calls its file. */
type NamedReport = LabelFileState & { name: string };

/** Formats the counts of label files, their faults by line, and the labels that were replaced. */
export function labelFilesText(
  found: readonly LabelFileState[],
  options: TableOptions,
  nameOf = labelFileName,
): string {
  if (found.length === 0) return '';
  const files = found.map((file) => ({ ...file, name: nameOf(file) }));
  const details = files.flatMap((file) => [...faultLines(file), ...replacedLines(file)]);
  return countsTable(files, options) + wrappedText(details, options.width);
}

/** Outcomes that no file has are left out. */
function countsTable(files: readonly NamedReport[], options: TableOptions): string {
  const used = OUTCOMES.filter((name) => name === 'lines' || files.some(({ counts }) => counts[name] > 0));
  const rows = files.map((file) => [file.name, ...used.map((name) => whole(file.counts[name]))]);
  const sum = (name: keyof LabelCounts): number => files.reduce((total, { counts }) => total + counts[name], 0);
  const total = files.length === 1 ? [] : [['all', ...used.map((name) => whole(sum(name)))]];
  return tableText(['file', ...used], [...rows, ...total], options);
}

function faultLines({ name, counts, error, faults }: NamedReport): string[] {
  if (error !== undefined) return [`${name}: not read: ${error.name}: ${singleLine(error.message)}`];
  const lines = faults.map(({ line, name: fault, message }) => `${name}:${line}: ${fault}: ${singleLine(message)}`);
  return firstOf(lines, counts.invalid + counts.ambiguous, (more) => `${name}: and ${more} more`);
}

/** The first lines, and how many there are besides. */
const firstOf = (lines: readonly string[], all: number, rest: (more: string) => string): string[] => [
  ...lines.slice(0, MAX_SHOWN),
  ...(all > MAX_SHOWN ? [rest(whole(all - MAX_SHOWN))] : []),
];

function replacedLines({ name, counts, replacedLabels }: NamedReport): string[] {
  const lines = replacedLabels.map(({ line, id, from, to }) =>
    singleLine(`${name}:${line}: ${id} was ${from}, and is ${to} now`),
  );
  return firstOf(lines, counts.replaced, (more) => `${name}: and ${more} more were replaced`);
}

function notedLines({ noted, notNoted, notedBy }: Pick<TruthReport, 'noted' | 'notNoted' | 'notedBy'>): string[] {
  const not = Object.entries(notNoted).map(([reason, count]) => `${singleLine(reason)} ${whole(count)}`);
  return [
    ...(noted > 0 ? [`${whole(noted)} ${noted === 1 ? 'label was' : 'labels were'} written to MLflow.`] : []),
    ...(not.length > 0 ? [`Not written to MLflow: ${not.join(', ')}.`] : []),
    ...(notedBy === undefined ? [] : [`The run ${singleLine(notedBy)} writes these labels to MLflow.`]),
  ];
}

/** Says how many labels wait for their predictions; nothing if none does. */
export function waitingText({ labels, files, since, more }: WaitingLabels, options: TableOptions): string {
  if (labels === 0) return '';
  const count = `${more ? 'More than ' : ''}${whole(labels)} label${labels === 1 ? '' : 's'}`;
  const of = `${whole(files)} file${files === 1 ? '' : 's'}`;
  const time = since?.slice(0, '2026-11-20T10:00'.length).replace('T', ' ');
  const text = `${count} of ${of} wait${labels === 1 ? 's' : ''} for a prediction, since ${time} UTC at the earliest.`;
  return wrappedText([text], options.width);
}
