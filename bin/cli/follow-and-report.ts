/** Starts runs, follows them on the terminal, and reports their results. */
import type { ExecutionInput, RunOptions } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { parseInput } from '../../src/monitoring/plan/input.ts';
import { healthOfRuns } from '../../src/monitoring/run-health.ts';
import { type StartedExecution, startNamed } from '../operate/executions.ts';
import { expectedSeconds, followRuns, runWatcher } from '../operate/run-progress.ts';
import { listRuns, type RunReport, readRunReport } from '../operate/run-report.ts';
import { runDisplay } from './follow-display.ts';
import { unlessInterrupted } from './interruption.ts';
import { type FlagsOf, numbers, option, options } from './options.ts';
import { EXIT, notice, print } from './output.ts';
import { type RunsFollowed, runAsJson } from './run-json.ts';
import { commandText, nextSteps, runLinks, runsPage } from './run-text.ts';
import { type DeployedStack, monitoringRun, type StackFlags, stackSettings } from './stack.ts';

/** Starts a run, and follows it unless it is detached. */
export async function startAndFollow(stack: DeployedStack, input: ExecutionInput, flags: RunFlags & StackFlags) {
  parseInput(input);
  const run = await startNamed(stack.clients.sfn, stack.outputs.stateMachineArn, input, flags.name);
  if (!flags.detach) {
    notice(`run: ${run.name}`);
    return followAndReport(stack, [run], flags);
  }
  notice(`The run is started. To follow it: ${commandText(['show', run.name, '--follow'], stack.flag)}`);
  if (flags.json) await printReports(stack, [await reportOf(stack, run.arn)], flags);
  else process.stdout.write(`${run.name}\n`);
}

/**
 * Follows runs to their end, and prints their results. Ctrl-C leaves them running. The exit code is 1 if a run failed
 * or was stopped.
 */
export async function followAndReport(stack: DeployedStack, runs: readonly StartedExecution[], flags: StackFlags) {
  const watchers = runs.map((run) => runWatcher(stack.clients.sfn, stack.work, run));
  const ended = await unlessInterrupted(
    ({ signal }) => followRuns(watchers, runDisplay(), signal),
    () => comeBack(runs, stack.flag),
  );
  if (ended === undefined) return;
  const reports: RunReport[] = [];
  for (const { arn } of runs) reports.push(await reportOf(stack, arn));
  await printReports(stack, reports, flags);
  if (reports.some(({ status }) => status !== 'succeeded')) process.exitCode = EXIT.found;
}

const FOLLOW = (name: string): string[] => ['show', name, '--follow'];

/** Explains how to follow runs again later. @param again the command that follows a run again */
export const comeBack = (runs: readonly { name: string }[], stack: string | undefined, again = FOLLOW) => [
  runs.length === 1 ? 'The run continues. To follow it again:' : 'The runs continue. To follow them again:',
  ...runs.map(({ name }) => `  ${commandText(again(name), stack)}`),
];

/** Reads the results or the progress of a run. @param run its name, or the ARN of its execution */
export const reportOf = async (stack: DeployedStack, run: string): Promise<RunReport> =>
  readRunReport(stack.work, await monitoringRun(stack, run));

/** Number of earlier runs from whose speed the duration is estimated. */
const MAX_EARLIER = 20;

/** Prints reports as text or JSON. */
export async function printReports(stack: DeployedStack, reports: readonly RunReport[], { json }: StackFlags) {
  const { clients, outputs, work } = stack;
  const region = await clients.s3.config.region();
  const isDryRun = ({ summary }: RunReport): boolean => summary?.status === 'dryRun';
  const query = { status: 'succeeded' as const, limit: MAX_EARLIER };
  const earlier = reports.some(isDryRun) ? await listRuns(clients.sfn, outputs.stateMachineArn, work, query) : [];
  const summaries = earlier.flatMap(({ summary }) => summary ?? []);
  const pages = reports.map((report) => {
    const estimate = isDryRun(report) ? report.summary?.estimate : undefined;
    const seconds = estimate && expectedSeconds(estimate, summaries);
    const next = nextSteps(report, stack.flag);
    return { report, next, links: runLinks(report, stack, region), expectedSeconds: seconds };
  });
  const health = json ? undefined : await healthBy(stack, reports);
  print<RunsFollowed>({ runs: pages.map(runAsJson) }, json, runsPage(pages, health), stack.about);
}

/** The state of the endpoint by the captures of runs. */
export async function healthBy(stack: DeployedStack, reports: readonly RunReport[]) {
  const summaries = reports.flatMap(({ summary }) => summary ?? []);
  if (summaries.length < reports.length) return undefined;
  const settings = await stackSettings(stack);
  return healthOfRuns(summaries, { ...settings, active: activeScorers(settings), stack: stack.flag });
}

// ------------------------------------------------------------------------------------------------ options of a run

/** The options of a command that starts runs. */
export const runOptions = () =>
  options(
    option('--evaluate', 'judge the captures (the default)'),
    option('--no-evaluate', 'only log traces'),
    option('--sample-rate <share>', 'the chance of each capture to be judged, 0 to 1', numbers.share),
    option('--verdicts <captures>', 'judge so many captures, spread evenly over all that the run finds', numbers.count),
    option('--budget <dollars>', 'the most that this run may spend, within the daily budget', numbers.spending),
    option('--batch', 'judge by Bedrock batch inference: half the price, hours later'),
    option('--reevaluate', 'judge captures again that have a verdict'),
    option('--dry-run', 'estimate files, time and cost; spend nothing'),
    option('--detach', 'start it, and do not follow it'),
    option('--name <name>', 'name of the run'),
  );

/** Commander gives no value of `--evaluate` if neither it nor `--no-evaluate` is there. */
type RunFlags = Partial<FlagsOf<ReturnType<typeof runOptions>>>;

/**
 * Returns the options of an execution's input, without options that are not given.
 *
 * @throws PermanentError `OptionsContradict`
 */
export function inputOptions(flags: RunFlags): Partial<RunOptions> {
  const { evaluate, sampleRate, verdicts, budget, batch, reevaluate, dryRun } = flags;
  const ofSample = { '--sample-rate': sampleRate, '--verdicts': verdicts };
  const ofJudge = { ...ofSample, '--budget': budget, '--batch': batch, '--reevaluate': reevaluate };
  const given = Object.entries(ofJudge).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (evaluate === false && given.length > 0) {
    const facts = { got: `--no-evaluate with ${given.join(', ')}`, expected: 'the one or the others' };
    throw new PermanentError('OptionsContradict', 'The options contradict each other', facts);
  }
  const judge = batch ? ('batch' as const) : undefined;
  const all = { evaluate, sampleRate, verdicts, budgetUsd: budget, judge, reevaluate, dryRun };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}
