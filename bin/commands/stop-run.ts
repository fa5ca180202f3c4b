/** Stops a monitoring run, and says what that leaves. */
import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { nextSteps } from '../cli/run-text.ts';
import { type DeployedStack, machinesOf, type StackFlags } from '../cli/stack.ts';
import { type FoundExecution, findExecution } from '../operate/find-execution.ts';
import { readRunReport } from '../operate/run-report.ts';

/** What `stop --json` prints. `status` is that of the execution, as Step Functions names it. */
export type StopResult =
  | {
      kind: 'run';
      run: string;
      status: string;
      /** ARNs of jobs at Bedrock that go on. */
      openBatchJobs: string[];
    }
  | {
      kind: 'replay';
      run: string;
      status: string;
      /** Requests; absent: nothing was sent, or there are no results yet. */
      sent?: number | undefined;
      requests?: number | undefined;
      /** Where the results are, in S3. */
      results?: string;
    };

export async function stopRun(
  stack: DeployedStack,
  { executionArn }: FoundExecution,
  flags: StackFlags,
  say: (line: string) => void,
): Promise<StopResult> {
  const { clients, outputs } = stack;
  const find = (): Promise<FoundExecution> => findExecution(clients.sfn, machinesOf(stack), executionArn);
  const before = await find();
  const isRunning = before.status === 'RUNNING' || before.status === 'PENDING_REDRIVE';
  if (isRunning) {
    const cause = 'inference-monitor stop';
    await clients.sfn.send(new StopExecutionCommand({ executionArn, error: 'RunStopped', cause }));
  }
  // It may have ended just before.
  const found = await find();
  const report = await readRunReport(clients, outputs.workBucket, found);
  const lines =
    found.status !== 'ABORTED' || !isRunning
      ? [`The run ${found.name} has already ended: ${report.status}${report.error ? ` (${report.error.name})` : ''}.`]
      : stoppedLines(report.summary);
  for (const line of lines) say(line);
  for (const arn of report.openBatchJobs) {
    say('A batch job goes on, and costs money. Nobody reads its answers unless the run is retried. To stop it:');
    say(`  aws bedrock stop-model-invocation-job --job-identifier ${arn}`);
  }
  for (const { why, command } of nextSteps(report, flags.stack)) say(`${why}:\n  ${command}`);
  return { kind: 'run', run: found.name, status: found.status, openBatchJobs: report.openBatchJobs };
}

function stoppedLines(summary: Awaited<ReturnType<typeof readRunReport>>['summary']): string[] {
  const { lines } = summary ?? {};
  return [
    'The run is stopped. Functions at work finish their part, within 15 minutes, and keep what the judge has answered.',
    lines === undefined
      ? 'Nothing was planned yet.'
      : `${lines.planned - lines.lost} of ${lines.planned} planned lines have an outcome. Their traces and verdicts stay.`,
    'Money that functions set aside returns to the budget when they end, or two minutes later. Other runs may take over its files now.',
  ];
}
