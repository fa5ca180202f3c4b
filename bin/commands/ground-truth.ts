/** `inference-monitor ground-truth`: joins labels to predictions, and prints how good the predictions were. */
import { Command, Option } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { labeledHours } from '../../src/ground-truth/join/labeled-store.ts';
import { type TruthFigures, truthTable } from '../../src/ground-truth/measure/figures.ts';
import { TRUTH_PERIODS, type TruthBy, type TruthQuery } from '../../src/ground-truth/measure/measure.ts';
import { unlessInterrupted } from '../cli/follow-and-report.ts';
import { EXIT, notice, terminal, writeJson } from '../cli/output.ts';
import { startProgress } from '../cli/progress.ts';
import { commandText } from '../cli/run-text.ts';
import { addStackOptions, type DeployedStack, type StackFlags, shadowVariantsOf, withStack } from '../cli/stack.ts';
import { FROM_OPTION, TO_OPTION, type WindowFlags, windowOfFlags } from '../cli/window.ts';
import { findExecution, type StartedExecution, startNamed } from '../operate/executions.ts';
import { LABEL_FILES, placeLabels } from '../operate/place-labels.ts';
import { followRuns } from '../operate/run-progress.ts';
import {
  readTruthReport,
  type TruthReport,
  truthFigures,
  truthReportText,
  truthWatcher,
  type WaitingLabels,
  waitingLabels,
  waitingText,
} from '../operate/truth-run.ts';
import { truthSettings } from './settings.ts';

interface TruthFlags extends StackFlags, WindowFlags, Pick<TruthQuery, 'by' | 'variant'> {
  run?: string;
  detach?: boolean;
}

/** What `--json` prints. */
export interface GroundTruthOutput {
  /** `null`: no labels were given. */
  run: TruthReport | null;
  waiting: WaitingLabels;
  /** `null`: no prediction has a label. */
  quality: (TruthFigures & { window: Record<'from' | 'to', string | null>; by: TruthBy | null }) | null;
}

const HELP = `
The labels are ${LABEL_FILES}: JSON Lines with an id and a label, SageMaker Model Monitor's records, or CSV with named columns.
They are copied to the stack, which joins them to what it has indexed of the predictions. The command prints what became of each
line, and how good the predictions were. Labels without a prediction wait for it. The same file again changes nothing.

Without a file it prints how good they were: all that have a label, or those of inferences from --from to --to. Times are instants
such as 2026-11-20T09:00:00Z, days (UTC), or ages such as 12h, 7d.

The run goes on if this command is interrupted. The exit code is 1 if it failed, or if a line could not be used.

Examples:
  inference-monitor ground-truth labels.csv
  inference-monitor ground-truth s3://my-labels/churn/2026-11/
  inference-monitor ground-truth --from 30d --by day --variant green`;

export function groundTruthCommand(): Command {
  const command = new Command('ground-truth')
    .argument('[labels]', 'a file, a folder, s3://bucket/key or s3://bucket/prefix/')
    .option(...FROM_OPTION)
    .option(...TO_OPTION)
    .addOption(new Option('--by <what>', 'figures for each').choices(TRUTH_PERIODS))
    .option('--variant <name>', 'only predictions of this variant')
    .addOption(new Option('--run <run>', 'follow a run that was started before, or print its report'))
    .option('--detach', 'start the run, and do not follow it');
  return addStackOptions(command, HELP).action(groundTruth);
}

async function groundTruth(source: string | undefined, flags: TruthFlags): Promise<void> {
  if (source === '' || (source !== undefined && flags.run !== undefined)) {
    throw new PermanentError('LabelsMissing', 'It is not said which labels are meant', {
      got: source === '' ? 'an empty name' : 'labels and --run',
      expected: 'a file, a folder or s3://…; or --run alone, for a run that was started before',
    });
  }
  const query = { by: flags.by, variant: flags.variant, ...windowOfFlags(flags) };
  await withStack(flags, async (stack) => {
    const run = flags.run === undefined ? source && (await start(stack, source)) : await find(stack, flags.run);
    if (run && flags.detach) {
      notice(`The run is started. To follow it: ${commandText(['ground-truth', '--run', run.name], flags.stack)}`);
    } else if (run && !(await follow(stack, run, flags))) return;
    await print(
      stack,
      run ? await readTruthReport(stack.clients, stack.outputs.workBucket, run.arn) : undefined,
      query,
      flags,
    );
  });
}

async function start({ storage, clients, outputs }: DeployedStack, source: string): Promise<StartedExecution> {
  const watched = truthSettings().GROUND_TRUTH_S3_PREFIX;
  const { input, files, bytes } = await placeLabels(storage, outputs.workBucket, source, watched);
  notice(`${files} label file${files === 1 ? '' : 's'}, ${bytes.toLocaleString('en-US')} bytes`);
  const run = await startNamed(clients.sfn, outputs.groundTruthStateMachineArn, input);
  notice(`run: ${run.name}`);
  return run;
}

async function find({ clients, outputs }: DeployedStack, run: string): Promise<StartedExecution> {
  const { name, executionArn } = await findExecution(
    clients.sfn,
    { groundTruth: outputs.groundTruthStateMachineArn },
    run,
  );
  return { name, arn: executionArn };
}

/** @returns `false` if it was interrupted */
async function follow({ clients, outputs }: DeployedStack, run: StartedExecution, flags: TruthFlags): Promise<boolean> {
  const progress = startProgress(process.stderr);
  const ended = await unlessInterrupted(
    (signal) =>
      followRuns([truthWatcher(clients, outputs.workBucket, run)], {
        signal,
        onLook: ([look]) =>
          progress.show(
            `${look?.files ? `${look.files} label files read` : 'reading labels'}${look?.noted ? `, ${look.noted} labels in MLflow` : ''} …`,
          ),
      }),
    () => {
      progress.end();
      const command = commandText(['ground-truth', '--run', run.name], flags.stack);
      return ['The run goes on. To come back:', `  ${command}`];
    },
  );
  progress.end();
  return ended !== undefined;
}

async function print(
  stack: DeployedStack,
  report: TruthReport | undefined,
  query: TruthQuery,
  { json }: TruthFlags,
): Promise<void> {
  const { storage, outputs } = stack;
  const { GROUND_TRUTH: settings } = truthSettings();
  const shadow = await shadowVariantsOf(stack);
  const figures = await truthFigures(storage, outputs.workBucket, settings, { ...query, shadow });
  if (figures === undefined && report === undefined) return noLabels(stack, query);
  const waiting = await waitingLabels(storage, outputs.workBucket);
  if (report !== undefined && isFaulty(report)) process.exitCode = EXIT.found;
  if (json) {
    const window = { from: instant(query.fromMs), to: instant(query.toMs) };
    const quality = figures === undefined ? null : { window, by: query.by ?? null, ...figures };
    return writeJson('ground-truth', { run: report ?? null, waiting, quality });
  }
  const out = terminal();
  const text = [
    report === undefined ? '' : truthReportText(report, out),
    waitingText(waiting, out),
    figures === undefined ? 'No prediction has a label yet.\n' : truthTable(figures, query.by, out),
  ];
  process.stdout.write(text.filter(Boolean).join('\n'));
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
