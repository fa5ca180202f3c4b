/** `inference-monitor stop`: stops a cloud replay, and waits for its results. */
import { setTimeout as sleep } from 'node:timers/promises';
import { InvokeCommand } from '@aws-sdk/client-lambda';
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  ExecutionDoesNotExist,
  InvalidArn,
  ListExecutionsCommand,
  type SFNClient,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import { Command } from 'commander';
import { resourceNames } from '../../src/contract/names.ts';
import type { EndedExecution } from '../../src/contract/replay.ts';
import { replayKeys } from '../../src/contract/work-keys.ts';
import { putStopMark } from '../../src/replay/cloud/stop/order.ts';
import { replayState } from '../../src/replay/cloud/stop/stop-replay.ts';
import { PermanentError } from '../../src/shared/errors.ts';
import type { Storage } from '../../src/shared/storage.ts';
import { EXIT } from '../cli/exit-codes.ts';
import { type StackFlags, stackOption, withStack } from '../cli/stack.ts';

const HELP = `
Shards that are sending stop within seconds, and no further shard starts. The results so far are then summarized, and the
MLflow run ends as KILLED. If a replay has ended without results, the command has them written; it is safe to repeat.
The exit code is 1 if the results are not there after five minutes, and 2 if the replay does not exist or could not be
stopped.

Examples:
  inference-monitor stop before-the-migration
  inference-monitor stop before-the-migration --stack staging`;

const POLL_MS = 2_000;
const WAIT_MS = 5 * 60_000;

/** Running executions that an error for an unknown name lists. */
const MAX_NAMED = 10;

export function stopCommand(): Command {
  return new Command('stop')
    .argument('<run>', 'name of the execution')
    .addOption(stackOption())
    .addHelpText('after', HELP)
    .action(stop);
}

async function stop(run: string, flags: StackFlags): Promise<void> {
  await withStack(flags, async ({ prefix, outputs, clients, storage }) => {
    const { workBucket: bucket, replayStateMachineArn: machine } = outputs;
    const { executionArn, status: found, startDate, error, cause } = await findExecution(clients.sfn, machine, run);
    let status = found;
    const state = () => replayState(storage, bucket, run, status === 'FAILED');
    if (status === 'RUNNING') {
      // Written before the execution stops: if the shards use up the account's concurrency, StopReplay starts late.
      await putStopMark(storage, bucket, run, 'inference-monitor stop');
      await clients.sfn.send(
        new StopExecutionCommand({ executionArn, error: 'ReplayStopped', cause: 'inference-monitor stop' }),
      );
      // It may have ended just before.
      status = (await findExecution(clients.sfn, machine, run)).status;
      console.log(
        status === 'SUCCEEDED'
          ? `The replay ${run} ended before it could be stopped.`
          : `Stopping the replay ${run}: its shards end within seconds.`,
      );
    } else {
      console.log(`The replay ${run} has already ended: ${status}${error ? ` (${error})` : ''}.`);
      if (status !== 'SUCCEEDED' && (await state()).end === 'open') {
        const detail = { executionArn, status, startDate: startDate?.getTime(), error, cause };
        await clients.lambda.send(
          new InvokeCommand({
            FunctionName: resourceNames(prefix).replayStopper,
            InvocationType: 'Event',
            Payload: JSON.stringify({ detail } as EndedExecution),
          }),
        );
        console.log('Its results are missing and were requested.');
      }
    }
    const deadline = Date.now() + WAIT_MS;
    while (status !== 'SUCCEEDED' && (await state()).end === 'open') {
      if (Date.now() > deadline) {
        console.error(
          'There are no results yet. A crashed shard delays them until its 15 minutes are over. ' +
            `Then repeat: inference-monitor stop ${run} --stack ${prefix}`,
        );
        process.exitCode = EXIT.found;
        return;
      }
      await sleep(POLL_MS);
    }
    console.log(await resultsText(storage, bucket, run));
  });
}

/** Describes the execution of a replay. @throws PermanentError `NoSuchReplay`, which names running ones */
export async function findExecution(
  sfn: SFNClient,
  machine: string,
  run: string,
): Promise<DescribeExecutionCommandOutput> {
  const executionArn = `${machine.replace(':stateMachine:', ':execution:')}:${run}`;
  try {
    return await sfn.send(new DescribeExecutionCommand({ executionArn }));
  } catch (error) {
    // An invalid name makes an invalid ARN.
    if (!(error instanceof ExecutionDoesNotExist || error instanceof InvalidArn)) throw error;
    const { executions = [] } = await sfn.send(
      new ListExecutionsCommand({ stateMachineArn: machine, statusFilter: 'RUNNING', maxResults: MAX_NAMED }),
    );
    const running = executions.map(({ name }) => name).join(', ');
    throw new PermanentError('NoSuchReplay', 'The replay does not exist', {
      got: run,
      expected: `the name of an execution; running executions: ${running || 'none'}`,
      where: machine,
    });
  }
}

async function resultsText(storage: Storage, bucket: string, run: string): Promise<string> {
  const figures = await storage.getJson<{ sent: number; requests: number }>(bucket, replayKeys.figures(run));
  return figures
    ? `${figures.sent} of ${figures.requests} requests were sent. Results: s3://${bucket}/${replayKeys.resultPrefix(run)}`
    : 'Nothing was sent.';
}
