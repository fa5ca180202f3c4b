/** StartRuns: the queued events of new capture files → one execution for all of them. */
import { ExecutionAlreadyExists, SFNClient, StartExecutionCommand } from '@aws-sdk/client-sfn';
import { type FailedEvents, type QueuedEvent, startRun } from '../../src/monitoring/start-run.ts';
import { readEnvironment } from '../../src/settings/environment.ts';
import { RetryableError, saidBy } from '../../src/shared/errors.ts';
import { logged } from '../../src/shared/logging.ts';
import { createS3Client, Storage } from '../../src/shared/storage.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const stepFunctions = new SFNClient({});

async function start(name: string, input: object): Promise<void> {
  const stateMachineArn = environment.STATE_MACHINE_ARN;
  try {
    await stepFunctions.send(new StartExecutionCommand({ stateMachineArn, name, input: JSON.stringify(input) }));
  } catch (error) {
    if (error instanceof ExecutionAlreadyExists) return;
    const facts = { got: saidBy(error), where: stateMachineArn };
    throw new RetryableError('StepFunctionsUnavailable', 'Step Functions did not start an execution', facts, error);
  }
}

export const handler = logged<{ Records: QueuedEvent[] }, FailedEvents>(({ Records }) =>
  startRun(Records, { storage, workBucket: environment.WORK_BUCKET, start }),
);
