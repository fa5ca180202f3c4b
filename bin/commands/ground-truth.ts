/** `inference-monitor ground-truth`: joins labels to predictions, and prints how good the predictions were. */

import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { many } from '../../src/core/text/figure-text.ts';
import { labeledHours } from '../../src/ground-truth/join/labeled-store.ts';
import type { TruthFigures } from '../../src/ground-truth/measure/figures.ts';
import { TRUTH_PERIODS, type TruthBy, type TruthQuery } from '../../src/ground-truth/measure/measure.ts';
import { unlessInterrupted } from '../cli/interruption.ts';
import { argument, command, type FlagsOf, option, options } from '../cli/options.ts';
import { EXIT, notice, print } from '../cli/output.ts';
import { block } from '../cli/page.ts';
import { startProgress } from '../cli/progress.ts';
import { commandText } from '../cli/run-text.ts';
import { type DeployedStack, stackOptions, stackSettings, withStack } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { findExecution, type StartedExecution, startNamed } from '../operate/executions.ts';
import { LABEL_FILES, placeLabels } from '../operate/place-labels.ts';
import { followRuns } from '../operate/run-progress.ts';
import {
  readTruthReport,
  type TruthProgress,
  type TruthReport,
  truthFigures,
  truthWatcher,
  type WaitingLabels,
  waitingLabels,
} from '../operate/truth-run.ts';
import { truthPage, truthReportPage, waitingPart } from './ground-truth-text.ts';

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

/** What `--json` prints. */
export interface GroundTruthOutput {
  /** `null`: no labels were given. */
  run: TruthReport | null;
  waiting: WaitingLabels;
  /** `null`: no prediction has a label. */
  quality: (TruthFigures & { window: Record<'from' | 'to', string | null>; by: TruthBy | null }) | null;
}

export default command('ground-truth', OPTIONS, joinLabels, { labelFiles: LABEL_FILES });

async function joinLabels(flags: TruthFlags): Promise<void> {
  const { labels: source } = flags;
  if (source === '' || (source !== undefined && flags.run !== undefined)) {
    const got = source === '' ? 'an empty name' : 'labels and --run';
    const expected = 'a file, a folder or s3://…; or --run alone, for a run that was started before';
    throw new PermanentError('LabelsMissing', 'No labels are given', { got, expected });
  }
  const query = { by: flags.by, variant: flags.variant, ...windowOfFlags(flags) };
  await withStack(flags, async (stack) => {
    const run = flags.run === undefined ? source && (await start(stack, source)) : await find(stack, flags.run);
    if (run && flags.detach) notice(`The run is started. To follow it: ${comeBack(run, stack)}`);
    else if (run && !(await follow(stack, run))) return;
    const report = run && (await readTruthReport(stack.clients, stack.outputs.workBucket, run.arn));
    await printTruth(stack, report || undefined, query, flags);
  });
}

async function start(stack: DeployedStack, source: string): Promise<StartedExecution> {
  const { storage, clients, outputs } = stack;
  const { GROUND_TRUTH_S3_PREFIX: watched } = await stackSettings(stack);
  const { input, files, bytes } = await placeLabels(storage, outputs.workBucket, source, watched);
  notice(`${many(files, 'label file')}, ${many(bytes, 'byte')}`);
  const run = await startNamed(clients.sfn, outputs.groundTruthStateMachineArn, input);
  notice(`run: ${run.name}`);
  return run;
}

async function find({ clients, outputs }: DeployedStack, run: string) {
  const machines = { groundTruth: outputs.groundTruthStateMachineArn };
  const { name, executionArn } = await findExecution(clients.sfn, machines, run);
  return { name, arn: executionArn };
}

const comeBack = ({ name }: StartedExecution, { flag }: DeployedStack): string =>
  commandText(['ground-truth', '--run', name], flag);

/** @returns `false` if it was interrupted */
async function follow(stack: DeployedStack, run: StartedExecution): Promise<boolean> {
  const progress = startProgress(process.stderr);
  const onPoll = ([found]: readonly TruthProgress[]): void => {
    const read = found?.files ? `${found.files} label files read` : 'reading labels';
    progress.show(`${read}${found?.noted ? `, ${found.noted} labels in MLflow` : ''} …`);
  };
  const watchers = [truthWatcher(stack.clients, stack.outputs.workBucket, run)];
  const ended = await unlessInterrupted(
    ({ signal }) => followRuns(watchers, onPoll, signal),
    () => {
      progress.end();
      return ['The run continues. To follow it again:', `  ${comeBack(run, stack)}`];
    },
  );
  progress.end();
  return ended !== undefined;
}

async function printTruth(
  stack: DeployedStack,
  report: TruthReport | undefined,
  query: TruthQuery,
  { json }: TruthFlags,
): Promise<void> {
  const { storage, outputs, about } = stack;
  const { GROUND_TRUTH: settings, SHADOW_VARIANTS: shadow } = await stackSettings(stack);
  const figures = await truthFigures(storage, outputs.workBucket, settings, { ...query, shadow });
  if (figures === undefined && query.variant !== undefined) {
    const each = { ...query, variant: undefined, by: 'variant' } as const;
    const { groups } = (await truthFigures(storage, outputs.workBucket, settings, each)) ?? {};
    if (groups)
      checkNames(
        'variant',
        [query.variant],
        groups.map(({ group }) => group),
      );
  }
  if (figures === undefined && report === undefined) return noLabels(stack, query);
  const waiting = await waitingLabels(storage, outputs.workBucket);
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
async function noLabels({ storage, outputs }: DeployedStack, { fromMs, toMs, variant }: TruthQuery): Promise<never> {
  const hours = await labeledHours(storage, outputs.workBucket);
  const [first, last] = [hours[0], hours.at(-1)];
  throw new PermanentError('NoLabels', 'No prediction there has a label', {
    got: `${instant(fromMs) ?? 'the beginning'} to ${instant(toMs) ?? 'now'}${variant === undefined ? '' : `, variant ${variant}`}`,
    expected:
      first === undefined ? 'labels: give a label file' : `a time within ${first} to ${last} (hours of inference, UTC)`,
  });
}
