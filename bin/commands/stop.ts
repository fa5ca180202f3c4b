/**
 * `inference-monitor stop`: stops a run and explains the consequences, or stops a cloud replay and waits for its
 * results.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { InvokeCommand } from '@aws-sdk/client-lambda';
import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { resourceNames } from '../../src/core/contract/names.ts';
import type { EndedExecution } from '../../src/core/contract/replay.ts';
import { areaOf, replayKeys } from '../../src/core/contract/work-keys.ts';
import { exact, type Page } from '../../src/core/text/page.ts';
import { replayState } from '../../src/replay/cloud/summarize/stop-shards.ts';
import { putStopMark } from '../../src/replay/cloud/work-bucket/stop-order.ts';
import { command, options } from '../cli/options.ts';
import { type About, EXIT, notice, print } from '../cli/output.ts';
import { hintPart, nextSteps } from '../cli/run-text.ts';
import { type DeployedStack, machinesOf, openStack, runArgument, stackOptions } from '../cli/stack.ts';
import { type FoundExecution, findExecution } from '../operate/executions.ts';
import { hasEnded } from '../operate/run-progress.ts';
import { type RunReport, readRunReport } from '../operate/run-report.ts';

const OPTIONS = options(runArgument(), ...stackOptions());

/** `status` is the status of the execution in Step Functions. */
export type Output = About & Awaited<ReturnType<typeof stopRun> | ReturnType<typeof stopReplay>>['stopped'];

export default command('stop', OPTIONS, async (flags) => {
  const stack = await openStack(flags);
  const found = await findExecution(stack.clients.sfn, machinesOf(stack), flags.run);
  const { stopped, page } = await (found.kind === 'replay' ? stopReplay : stopRun)(stack, found);
  print(stopped, flags.json, page, stack.about);
});

const CAUSE = 'inference-monitor stop';

// ----------------------------------------------------------------------------------------------------------- a run

async function stopRun(stack: DeployedStack, { executionArn, status }: FoundExecution) {
  const { clients } = stack;
  const isRunning = !hasEnded({ status });
  if (isRunning) {
    await clients.sfn.send(new StopExecutionCommand({ executionArn, error: 'RunStopped', cause: CAUSE }));
  }
  // The execution may have ended just before.
  const found = await findExecution(clients.sfn, machinesOf(stack), executionArn);
  const report = await readRunReport(stack.work, found);
  const why = report.error ? ` (${report.error.name})` : '';
  const isStopped = found.status === 'ABORTED' && isRunning;
  const { openBatchJobs } = report;
  const page = [
    ...(isStopped ? stoppedPage(report) : [`The run ${found.name} has already ended: ${report.status}${why}.`]),
    ...openBatchJobs.flatMap((arn) => [
      'A batch job continues, and costs money. Its answers are lost unless the run is retried. To stop it:',
      [exact(`aws bedrock stop-model-invocation-job --job-identifier ${arn}`)],
    ]),
    ...nextSteps(report, stack.flag).flatMap(hintPart),
  ];
  /** `openBatchJobs`: ARNs of jobs at Bedrock that continue. */
  return { stopped: { kind: 'run' as const, run: found.name, status: found.status as string, openBatchJobs }, page };
}

function stoppedPage({ summary }: RunReport): Page {
  const { lines } = summary ?? {};
  return [
    "The run is stopped. Running functions finish their chunk within 15 minutes, and keep the judge's answers.",
    lines === undefined
      ? 'Nothing was planned yet.'
      : `${lines.planned - lines.lost} of ${lines.planned} planned lines have an outcome. Their traces and verdicts stay.`,
    'Reserved money returns to the budget when the functions end, or two minutes later. Other runs may process its files now.',
  ];
}

// -------------------------------------------------------------------------------------------------- a cloud replay

const POLL_MS = 2_000;
const WAIT_MS = 5 * 60_000;

async function stopReplay(stack: DeployedStack, found: FoundExecution) {
  const { prefix, outputs, clients, storage } = stack;
  const { workBucket: bucket } = outputs;
  const { name: run, executionArn, error, cause } = found;
  let status: string = found.status;
  const page: string[] = [];
  const isOpen = async () =>
    status !== 'SUCCEEDED' && (await replayState(storage, bucket, run, status === 'FAILED')).end === 'open';
  if (status === 'RUNNING') {
    // Written before the execution stops: if the shards use up the account's concurrency, the summarizer starts late.
    await putStopMark(storage, bucket, run, CAUSE);
    await clients.sfn.send(new StopExecutionCommand({ executionArn, error: 'ReplayStopped', cause: CAUSE }));
    // The execution may have ended just before.
    status = (await findExecution(clients.sfn, machinesOf(stack), executionArn)).status;
    if (status === 'SUCCEEDED') page.push(`The replay ${run} ended before it could be stopped.`);
    else notice(`Stopping the replay ${run}: its shards end within seconds.`);
  } else {
    page.push(`The replay ${run} has already ended: ${status}${error ? ` (${error})` : ''}.`);
    if (await isOpen()) {
      const detail = { executionArn, status, error, cause };
      const Payload = JSON.stringify({ detail } as EndedExecution);
      const FunctionName = resourceNames(prefix).replaySummarizer;
      await clients.lambda.send(new InvokeCommand({ FunctionName, InvocationType: 'Event', Payload }));
      page.push('Its results are missing and were requested.');
    }
  }
  const deadline = Date.now() + WAIT_MS;
  while (await isOpen()) {
    if (Date.now() > deadline) {
      notice(
        `There are no results yet. A crashed shard delays them until its 15 minutes are over. Then repeat: inference-monitor stop ${run} --stack ${prefix}`,
      );
      process.exitCode = EXIT.found;
      return { stopped: { kind: 'replay' as const, run, status }, page };
    }
    await sleep(POLL_MS);
  }
  const figures = await storage.getJson<{ sent: number; requests: number }>(bucket, replayKeys.figures(run));
  const results = `s3://${bucket}/${areaOf('replayResults', run)}`;
  const { sent, requests } = figures ?? {};
  page.push(figures ? `${sent} of ${requests} requests were sent. Results: ${results}` : 'Nothing was sent.');
  const stopped = {
    kind: 'replay' as const,
    run,
    status,
    /** Number of sent requests. Absent if none was sent, or there are no results yet. */
    sent,
    requests,
    /** Location of the results in S3. */
    results: figures && results,
  };
  return { stopped, page };
}
