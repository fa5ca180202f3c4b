/** The reports of ground truth runs, and the labels that wait, as pages. */

import type { LabelCounts } from '../../src/core/contract/ground-truth.ts';
import { truthKeys } from '../../src/core/contract/work-keys.ts';
import { many, whole } from '../../src/core/text/figure-text.ts';
import { namedCounts } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
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
  return [table(['file', ...used], [...rows, files.length > 1 && ['all', ...sums]]), ...remarks];
}

/** Says how many labels wait for their predictions; nothing if none does. */
export function waitingPart({ labels, files, since, more }: WaitingLabels): Part {
  const count = `${more ? 'More than ' : ''}${many(labels, 'label')} of ${many(files, 'file')}`;
  const time = since?.slice(0, '2026-11-20T10:00'.length).replace('T', ' ');
  const text = `${count} ${labels === 1 ? 'has' : 'have'} no matching prediction yet (waiting since ${time} UTC).`;
  return block(labels > 0 && text);
}
