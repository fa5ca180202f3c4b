/** `inference-monitor ground-truth`: joins labels to predictions, and prints how good the predictions were. */

import type { LabelCounts } from '../../src/core/contract/ground-truth.ts';
import { areaOf } from '../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { many, time, whole } from '../../src/core/text/figure-text.ts';
import { block, firstOf, type Page, type Part, section, table } from '../../src/core/text/page.ts';
import { namedCounts } from '../../src/core/text/terminal-text.ts';
import { sum } from '../../src/core/values/sum.ts';
import { labeledHours } from '../../src/ground-truth/join/labeled-store.ts';
import type { TruthFigures } from '../../src/ground-truth/measure/figures.ts';
import { truthPage } from '../../src/ground-truth/measure/figures-page.ts';
import { TRUTH_PERIODS, type TruthBy, type TruthQuery } from '../../src/ground-truth/measure/measure.ts';
import { comeBack } from '../cli/follow-and-report.ts';
import { unlessInterrupted } from '../cli/interruption.ts';
import { argument, command, type FlagsOf, option, options } from '../cli/options.ts';
import { type About, EXIT, notice, print, progress } from '../cli/output.ts';
import { commandText } from '../cli/run-text.ts';
import { type DeployedStack, openStack, stackOptions, stackSettings } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { findExecution, type StartedExecution, startNamed } from '../operate/executions.ts';
import { LABEL_FILES, placeLabels } from '../operate/place-labels.ts';
import { followRuns } from '../operate/run-progress.ts';
import {
  type LabelFileState,
  readTruthReport,
  type TruthProgress,
  type TruthReport,
  truthFigures,
  truthWatcher,
  type WaitingLabels,
  waitingLabels,
} from '../operate/truth-run.ts';

const OPTIONS = options(
  argument('[labels]', 'a file, a folder, s3://bucket/key or s3://bucket/prefix/'),
  ...windowOptions(),
  option('--by <what>', 'figures for each', { choices: TRUTH_PERIODS }),
  option('--variant <name>', 'only predictions of this variant'),
  option('--run <run>', 'follow a run that was started before, or print its report'),
  option('--detach', 'start the run, and do not follow it'),
  ...stackOptions(),
);
type TruthFlags = FlagsOf<typeof OPTIONS>;

/** The output with `--json`. */
export interface GroundTruthOutput {
  /** `null`: no labels were given. */
  run: TruthReport | null;
  waiting: WaitingLabels;
  /** `null`: no prediction has a label. */
  quality: (TruthFigures & { window: Record<'from' | 'to', string | null>; by: TruthBy | null }) | null;
}

export type Output = About & GroundTruthOutput;

export default command('ground-truth', OPTIONS, joinLabels, { labelFiles: LABEL_FILES });

async function joinLabels(flags: TruthFlags): Promise<void> {
  const { labels: source } = flags;
  if (source === '' || (source !== undefined && flags.run !== undefined)) {
    const got = source === '' ? 'an empty name' : 'labels and --run';
    const expected = 'a file, a folder or s3://…; or --run alone, for a run that was started before';
    throw new PermanentError('LabelsMissing', 'No labels are given', { got, expected });
  }
  const query = { by: flags.by, variant: flags.variant, ...windowOfFlags(flags) };
  const stack = await openStack(flags);
  const run = flags.run === undefined ? source && (await startJoin(stack, source)) : await find(stack, flags.run);
  if (run && flags.detach) notice(`The run is started. To follow it: ${commandText(again(run.name), stack.flag)}`);
  else if (run && (await follow(stack, run)) === undefined) return;
  const report = run && (await readTruthReport(stack.clients.sfn, stack.work, run.arn));
  await printTruth(stack, report || undefined, query, flags);
}

/** Starts a run over label files, which are copied to where it reads them. @throws PermanentError `LabelsMissing` */
export async function startJoin(stack: DeployedStack, source: string): Promise<StartedExecution> {
  const { GROUND_TRUTH_S3_PREFIX: watched } = await stackSettings(stack);
  const { input, files, bytes } = await placeLabels(stack.work, source, watched);
  notice(`${many(files, 'label file')}, ${many(bytes, 'byte')}`);
  const run = await startNamed(stack.clients.sfn, stack.outputs.groundTruthStateMachineArn, input);
  notice(`run: ${run.name}`);
  return run;
}

async function find({ clients, outputs }: DeployedStack, run: string) {
  const machines = { groundTruth: outputs.groundTruthStateMachineArn };
  const { name, executionArn } = await findExecution(clients.sfn, machines, run);
  return { name, arn: executionArn };
}

const again = (name: string): string[] => ['ground-truth', '--run', name];

/** @returns `undefined` if it was interrupted */
async function follow(stack: DeployedStack, run: StartedExecution) {
  const watchers = [truthWatcher(stack.clients.sfn, stack.work, run)];
  const textOf = (found?: TruthProgress): string => {
    const read = found?.files ? `${found.files} label files read` : 'reading labels';
    return `${read}${found?.noted ? `, ${found.noted} labels in MLflow` : ''} …`;
  };
  return unlessInterrupted(
    ({ signal }) => followRuns(watchers, ([found]) => progress.show(textOf(found)), signal),
    () => comeBack([run], stack.flag, again),
  );
}

/** Prints the outcomes of label files, and the figures of the labeled predictions. The exit code is 1 if a label is faulty. */
export async function printTruth(
  stack: DeployedStack,
  report: TruthReport | undefined,
  query: TruthQuery,
  { json }: Pick<TruthFlags, 'json'>,
): Promise<void> {
  const { work, about } = stack;
  const { GROUND_TRUTH: settings, SHADOW_VARIANTS: shadow } = await stackSettings(stack);
  const figures = await truthFigures(work, settings, { ...query, shadow });
  if (figures === undefined && query.variant !== undefined) {
    const each = { ...query, variant: undefined, by: 'variant' } as const;
    const { groups } = (await truthFigures(work, settings, each)) ?? {};
    const known = groups?.map(({ group }) => group);
    if (known) checkNames('variant', [query.variant], known);
  }
  if (figures === undefined && report === undefined) return noLabels(stack, query);
  const waiting = await waitingLabels(work);
  if (report !== undefined && isFaulty(report)) process.exitCode = EXIT.found;
  const window = { from: instant(query.fromMs), to: instant(query.toMs) };
  const quality = figures === undefined ? null : { window, by: query.by ?? null, ...figures };
  const page = [
    ...(report === undefined ? [] : truthReportPage(report)),
    waitingPart(waiting),
    block(...(figures === undefined ? ['No prediction has a label yet.'] : truthPage(figures, query.by))),
  ];
  print<GroundTruthOutput>({ run: report ?? null, waiting, quality }, json, page, about);
}

const isFaulty = ({ status, files }: TruthReport): boolean =>
  (status !== 'succeeded' && status !== 'running') ||
  files.some(({ counts, error }) => counts.invalid + counts.ambiguous > 0 || error !== undefined);

const instant = (ms: number | undefined): string | null => (ms === undefined ? null : new Date(ms).toISOString());

/** @throws PermanentError `NoLabels`, with the hours that have some */
async function noLabels({ work }: DeployedStack, { fromMs, toMs, variant }: TruthQuery): Promise<never> {
  const hours = await labeledHours(work);
  const [first, last] = [hours[0], hours.at(-1)];
  throw new PermanentError('NoLabels', 'No prediction there has a label', {
    got: `${instant(fromMs) ?? 'the beginning'} to ${instant(toMs) ?? 'now'}${variant === undefined ? '' : `, variant ${variant}`}`,
    expected:
      first === undefined ? 'labels: give a label file' : `a time within ${first} to ${last} (hours of inference, UTC)`,
  });
}

/** Faults, and replaced labels, that are shown of a file. */
const MAX_SHOWN = 10;

const OUTCOMES: readonly (keyof LabelCounts)[] = [
  ...(['lines', 'joined', 'repeated', 'replaced', 'outdated'] as const),
  ...(['waiting', 'unknown', 'ambiguous', 'invalid'] as const),
];

/** Returns the user's name for a label file: its path below an upload, or its address. */
export function labelFileName({ bucket, key }: Pick<LabelFileState, 'bucket' | 'key'>): string {
  // Behind the folder of the upload.
  const path = key.startsWith(areaOf('truthUploads')) ? key.slice(areaOf('truthUploads').length) : '';
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
function labelFilesPage(files: readonly LabelFileState[]): Page {
  const used = OUTCOMES.filter((name) => name === 'lines' || files.some(({ counts }) => counts[name] > 0));
  const rows = files.map((file) => [labelFileName(file), ...used.map((name) => whole(file.counts[name]))]);
  const sums = used.map((name) => whole(sum(files.map(({ counts }) => counts[name]))));
  const remarks = files.flatMap((file) => {
    const { counts, error, faults, replacedLabels } = file;
    const name = labelFileName(file);
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

/** Reports how many labels wait for their predictions. Left out if no label waits. */
export function waitingPart({ labels, files, since, more }: WaitingLabels): Part {
  const count = `${more ? 'More than ' : ''}${many(labels, 'label')} of ${many(files, 'file')}`;
  const text = `${count} ${labels === 1 ? 'has' : 'have'} no matching prediction yet (waiting since ${time(since ?? 0)}).`;
  return block(labels > 0 && text);
}
