/** StopReplay: a replay whose execution was stopped, or is to be → no more is sent, and what is to be done next. */
import { DescribeExecutionCommand, ExecutionDoesNotExist, SFNClient, StopExecutionCommand } from '@aws-sdk/client-sfn';
import { PermanentError, RetryableError, saidBy } from '../common/errors.ts';
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { readStopEnvironment } from '../replay/cloud/environment.ts';
import { stopReplay } from '../replay/cloud/stop-replay.ts';
import { type StopReplayRequest, type StopReplayResult, stopReplayRequestSchema } from '../replay-contract.ts';

const environment = readStopEnvironment();
const storage = new Storage(createS3Client());
const stepFunctions = new SFNClient({});

async function stopExecution(name: string): Promise<boolean> {
  const executionArn = `${environment.REPLAY_STATE_MACHINE_ARN.replace(':stateMachine:', ':execution:')}:${name}`;
  try {
    const { status } = await stepFunctions.send(new DescribeExecutionCommand({ executionArn }));
    if (status !== 'RUNNING') return false;
    const cause = 'The order to stop was put into the work bucket';
    await stepFunctions.send(new StopExecutionCommand({ executionArn, error: 'ReplayStopped', cause }));
    return true;
  } catch (error) {
    // An order may be there before what it is for: planning finds it.
    if (error instanceof ExecutionDoesNotExist) return false;
    const facts = { got: saidBy(error), where: executionArn };
    if (error instanceof Error && error.name === 'AccessDeniedException') {
      throw new PermanentError('StepFunctionsAccessDenied', 'The function may not stop the execution', facts, error);
    }
    throw new RetryableError('StorageUnavailable', 'Step Functions did not stop an execution', facts, error);
  }
}

export const handler = logged<StopReplayRequest, StopReplayResult>((event) =>
  stopReplay(stopReplayRequestSchema.parse(event), { storage, workBucket: environment.WORK_BUCKET, stopExecution }),
);
