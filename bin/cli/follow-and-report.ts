/**
 * Follows runs on the terminal, and reports what became of them.
 * Starts a run, and follows it.
 */

import type { ExecutionInput } from '../../src/core/contract/input.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { expectedSeconds } from '../operate/expected-time.ts';
import { followRuns } from '../operate/follow-runs.ts';
import { RunWatcher } from '../operate/run-progress.ts';
import { listRuns, type RunReport, readRunReport } from '../operate/run-report.ts';
import { startExecution } from '../operate/start-execution.ts';
import { EXIT } from './exit-codes.ts';
import { followDisplay } from './follow-display.ts';
import { notice, terminal, writeJson } from './output.ts';
import { runAsJson } from './run-json.ts';
import type { RunFlags } from './run-options.ts';
import { commandText, nextSteps, runLinks, runsText } from './run-text.ts';
import { type DeployedStack, monitoringRun, type StackFlags } from './stack.ts';
import { Stopped, stopOnSignals } from './stop-signals.ts';

interface NamedRun {
  name: string;
  arn: string;
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
