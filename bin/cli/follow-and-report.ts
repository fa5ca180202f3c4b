/** Starts runs, follows them on the terminal, and reports what became of them. */

import { type Command, InvalidArgumentError } from 'commander';
import type { ExecutionInput, RunOptions } from '../../src/core/contract/input.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { number, share } from '../commands/numbers.ts';
import { startExecution } from '../operate/executions.ts';
import { expectedSeconds, followRuns, RunWatcher } from '../operate/run-progress.ts';
import { listRuns, type RunReport, readRunReport } from '../operate/run-report.ts';
import { followDisplay } from './follow-display.ts';
import { EXIT, notice, terminal, writeJson } from './output.ts';
import { runAsJson } from './run-json.ts';
import { commandText, nextSteps, runLinks, runsText } from './run-text.ts';
import { type DeployedStack, monitoringRun, type StackFlags } from './stack.ts';
import { Stopped, stopOnSignals } from './stop-signals.ts';

interface NamedRun {
  name: string;
  arn: string;
}

/** Starts a run, and follows it unless it is detached. */
export async function startAndFollow(
  stack: DeployedStack,
  input: ExecutionInput,
  flags: RunFlags & StackFlags,
): Promise<void> {
  const run = await startExecution(stack.clients.sfn, stack.outputs.stateMachineArn, input, flags.name);
  if (!flags.detach) {
    notice(`run: ${run.name}`);
    await followAndReport(stack, [run], flags);
    return;
  }
  notice(`The run is started. To follow it: ${commandText(['follow', run.name], flags.stack)}`);
  if (!flags.json) process.stdout.write(`${run.name}\n`);
  else await printReports(stack, [await reportOf(stack, run.arn)], flags);
}

/** Follows runs to their end, and prints what became of them. Ctrl-C leaves them running. */
export async function followAndReport(
  stack: DeployedStack,
  runs: readonly NamedRun[],
  flags: StackFlags,
): Promise<void> {
  const { clients, outputs } = stack;
  const display = followDisplay(process.stderr);
  const followed = await unlessInterrupted(
    (signal) =>
      followRuns(
        runs.map((run) => new RunWatcher(clients, outputs.workBucket, run)),
        { onLook: display.look, signal },
      ),
    () => comeBack(runs, flags.stack),
  );
  display.end();
  if (followed !== undefined) await reportRuns(stack, runs, flags);
}

/** Says how to come back to runs. */
export const comeBack = (runs: readonly Pick<NamedRun, 'name'>[], stack?: string): string[] => [
  runs.length === 1 ? 'The run goes on. To come back:' : 'The runs go on. To come back:',
  ...runs.map(({ name }) => `  ${commandText(['follow', name], stack)}`),
];

/**
 * Does work that may be left to itself: Ctrl-C ends the command with its own exit code, and says how to come back.
 *
 * @returns `undefined` if it was interrupted
 */
export async function unlessInterrupted<T>(
  work: (signal: AbortSignal) => Promise<T>,
  explain: () => readonly string[],
): Promise<T | undefined> {
  const stopping = stopOnSignals();
  try {
    return await work(stopping.signal);
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
    process.stderr.write('\n');
    for (const line of explain()) notice(line);
    process.exitCode = EXIT.interrupted;
    return undefined;
  } finally {
    stopping.dispose();
  }
}

/** Prints what became of runs, or how far they are. The exit code is 1 if one failed or was stopped. */
export async function reportRuns(stack: DeployedStack, runs: readonly NamedRun[], flags: StackFlags): Promise<void> {
  const reports: RunReport[] = [];
  for (const { arn } of runs) reports.push(await reportOf(stack, arn));
  await printReports(stack, reports, flags);
  if (reports.some(({ status }) => status !== 'succeeded')) process.exitCode = EXIT.found;
}

/** Reads what became of a run, or how far it is. @param run its name, or the ARN of its execution */
export const reportOf = async (stack: DeployedStack, run: string): Promise<RunReport> =>
  readRunReport(stack.clients, stack.outputs.workBucket, await monitoringRun(stack, run));

/** Prints reports as text or JSON. */
export async function printReports(
  stack: DeployedStack,
  reports: readonly RunReport[],
  { json, stack: stackFlag }: StackFlags,
): Promise<void> {
  const region = await stack.clients.s3.config.region();
  const pages = reports.map((report) => ({
    report,
    next: nextSteps(report, stackFlag),
    links: runLinks(report, stack, region),
  }));
  const earlier = reports.some(isDryRun) ? await earlierRuns(stack) : [];
  const withTime = pages.map((page) => {
    const estimate = isDryRun(page.report) ? page.report.summary?.estimate : undefined;
    return { ...page, expectedSeconds: estimate && expectedSeconds(estimate, earlier) };
  });
  if (json) writeJson('follow', { runs: withTime.map(runAsJson) });
  else process.stdout.write(runsText(withTime, terminal(), stackFlag));
}

const isDryRun = ({ summary }: RunReport): boolean => summary?.status === 'dryRun';

/** Earlier runs whose pace tells how long one takes. */
const MAX_EARLIER = 20;

async function earlierRuns({ clients, outputs }: DeployedStack): Promise<RunSummary[]> {
  const options = { status: 'succeeded' as const, limit: MAX_EARLIER };
  const runs = await listRuns(clients, outputs.stateMachineArn, outputs.workBucket, options);
  return runs.flatMap(({ summary }) => summary ?? []);
}

// ------------------------------------------------------------------------------------------------ options of a run

export interface RunFlags {
  evaluate?: boolean;
  sampleRate?: number;
  budget?: number;
  batch?: boolean;
  reevaluate?: boolean;
  dryRun?: boolean;
  detach?: boolean;
  name?: string;
}

/** Adds the options of a run to a command. */
export const addRunOptions = (command: Command): Command =>
  command
    .option('--evaluate', 'judge the captures (the default)')
    .option('--no-evaluate', 'only log traces')
    .option('--sample-rate <share>', 'judge this share of the captures, 0 to 1', share)
    .option('--budget <dollars>', 'the most that this run may spend on the judge, within the daily budget', budgetOf)
    .option('--batch', 'judge by Bedrock batch inference: half the price, hours later')
    .option('--reevaluate', 'judge captures again that have a verdict')
    .option('--dry-run', 'say what it would take, and pay nothing')
    .option('--detach', 'start it, and do not follow it')
    .option('--name <name>', 'name of the run');

function budgetOf(text: string): number {
  const dollars = number(text);
  if (dollars > 0) return dollars;
  throw new InvalidArgumentError('expected a number over 0; to judge nothing: --no-evaluate');
}

/**
 * Returns the options of an execution's input, without those that are not given.
 *
 * @throws PermanentError `OptionsContradict`
 */
export function inputOptions(flags: RunFlags): Partial<RunOptions> {
  const { evaluate, sampleRate, budget, batch, reevaluate, dryRun } = flags;
  const ofJudge = Object.entries({
    '--sample-rate': sampleRate,
    '--budget': budget,
    '--batch': batch,
    '--reevaluate': reevaluate,
  });
  const given = ofJudge.flatMap(([name, value]) => (value === undefined ? [] : [name]));
  if (evaluate === false && given.length > 0) {
    const facts = { got: `--no-evaluate with ${given.join(', ')}`, expected: 'the one or the others' };
    throw new PermanentError('OptionsContradict', 'The options contradict each other', facts);
  }
  const options = {
    evaluate,
    sampleRate,
    budgetUsd: budget,
    ...(batch ? { judge: 'batch' as const } : {}),
    reevaluate,
    dryRun,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
