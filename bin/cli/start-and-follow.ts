/** Starts a run, and follows it. */
import type { ExecutionInput } from '../../src/core/contract/input.ts';
import { startExecution } from '../operate/start-execution.ts';
import { followAndReport, printReports, reportOf } from './follow-and-report.ts';
import { notice } from './output.ts';
import { commandText } from './run-hints.ts';
import type { RunFlags } from './run-options.ts';
import type { DeployedStack, StackFlags } from './stack.ts';

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
