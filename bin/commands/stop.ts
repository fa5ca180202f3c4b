/** `inference-monitor stop`: ends a replay in the cloud, and waits until what it has measured is there. */
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
import { dotenvOfCommand } from '../../local/settings/dotenv-file.ts';
import { destroyClients, environmentClients } from '../../local/stack/aws-clients.ts';
import { readStackOutputs, stackPrefix } from '../../local/stack/stack-outputs.ts';
import { resourceNames } from '../../src/contract/names.ts';
import type { EndedExecution } from '../../src/contract/replay.ts';
import { replayKeys } from '../../src/contract/work-keys.ts';
import { putStopMark } from '../../src/replay/cloud/stop/order.ts';
import { replayState } from '../../src/replay/cloud/stop/stop-replay.ts';
import { PermanentError } from '../../src/shared/errors.ts';
import { Storage } from '../../src/shared/storage.ts';

const HELP = `
Shards that send end within seconds and the others do not begin; then what was measured is summarised, and the run in
MLflow ends as KILLED. Of a replay that has ended already, what is missing is made up for: the command may be repeated.
The exit code is 1 when the results are not there after five minutes, 2 when there is no such replay, or it could not be
stopped.

Examples:
  inference-monitor stop before-the-migration
  inference-monitor stop before-the-migration --prefix staging`;

const EXIT_NOT_YET = 1;
const LOOK_EVERY_MS = 2_000;
const WAIT_MS = 5 * 60_000;

/** Executions that are named to whoever has named none. */
const MAX_NAMED = 10;

export function stopCommand(): Command {
  return new Command('stop')
    .description('stop a replay in the cloud, and wait for what it has measured')
    .argument('<run>', "the replay's execution, by its name")
    .option('--prefix <prefix>', "the stack's STACK_PREFIX (default: from the environment or .env)")
    .addHelpText('after', HELP)
    .action(stop);
}

async function stop(run: string, flags: { prefix?: string }): Promise<void> {
  const prefix = stackPrefix(flags.prefix, dotenvOfCommand());
  const clients = environmentClients();
  try {
    const { workBucket: bucket, all } = await readStackOutputs(clients.cloudFormation, prefix);
    const storage = new Storage(clients.s3);
    const machine = all.ReplayStateMachineArn ?? '';
    const { executionArn, status: found, startDate, error, cause } = await findExecution(clients.sfn, machine, run);
    let status = found;
    const state = () => replayState(storage, bucket, run, status === 'FAILED');
    if (status === 'RUNNING') {
      // Before the execution is stopped: where the shards use up the account's concurrency, StopReplay starts late.
      await putStopMark(storage, bucket, run, 'inference-monitor stop');
      await clients.sfn.send(
        new StopExecutionCommand({ executionArn, error: 'ReplayStopped', cause: 'inference-monitor stop' }),
      );
      // It may have ended by itself just before.
      status = (await findExecution(clients.sfn, machine, run)).status;
      console.log(
        status === 'SUCCEEDED'
          ? `The replay ${run} ended by itself before it could be stopped.`
          : `The replay ${run} is stopped. Its shards end within seconds.`,
      );
    } else {
      console.log(`The replay ${run} has ended already: ${status}${error ? ` (${error})` : ''}.`);
      if (status !== 'SUCCEEDED' && (await state()).end === 'open') {
        const detail = { executionArn, status, startDate: startDate?.getTime(), error, cause };
        await clients.lambda.send(
          new InvokeCommand({
            FunctionName: resourceNames(prefix).replayStopper,
            InvocationType: 'Event',
            Payload: JSON.stringify({ detail } as EndedExecution),
          }),
        );
        console.log('Its results are not there: they are asked for.');
      }
    }
    const deadline = Date.now() + WAIT_MS;
    while (status !== 'SUCCEEDED' && (await state()).end === 'open') {
      if (Date.now() > deadline) {
        console.error(
          'There are no results yet. A shard that has died is waited for until its 15 minutes are over; ' +
            `then, once more: inference-monitor stop ${run} --prefix ${prefix}`,
        );
        process.exitCode = EXIT_NOT_YET;
        return;
      }
      await sleep(LOOK_EVERY_MS);
    }
    console.log(await resultsText(storage, bucket, run));
  } finally {
    destroyClients(clients);
  }
}

/** @throws PermanentError `NoSuchReplay` */
export async function findExecution(
  sfn: SFNClient,
  machine: string,
  run: string,
): Promise<DescribeExecutionCommandOutput> {
  const executionArn = `${machine.replace(':stateMachine:', ':execution:')}:${run}`;
  try {
    return await sfn.send(new DescribeExecutionCommand({ executionArn }));
  } catch (error) {
    // An impossible name makes an invalid ARN.
    if (!(error instanceof ExecutionDoesNotExist || error instanceof InvalidArn)) throw error;
    const { executions = [] } = await sfn.send(
      new ListExecutionsCommand({ stateMachineArn: machine, statusFilter: 'RUNNING', maxResults: MAX_NAMED }),
    );
    const running = executions.map(({ name }) => name).join(', ');
    throw new PermanentError('NoSuchReplay', 'There is no replay of that name', {
      got: run,
      expected: `the name of an execution; running are: ${running || 'none'}`,
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
