/** SummarizeReplay: the results of all shards → the figures, the MLflow run, and whether the execution must fail. */
import { SFNClient } from '@aws-sdk/client-sfn';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { replayEndSchema, type SummarizeReplayResult } from '../../src/core/contract/replay.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { summarizeReplay } from '../../src/replay/cloud/summarize/summarize-replay.ts';
import { startOnce } from '../start-once.ts';

const environment = readEnvironment();
const storage = new Storage(createS3Client());
const mlflow = connectMlflow(environment, storage.s3);
const stepFunctions = new SFNClient({});

export const handler = logged<unknown, Partial<SummarizeReplayResult>>(
  environment.STACK_PREFIX,
  async (request, context) =>
    summarizeReplay(replayEndSchema.parse(request), {
      storage,
      workBucket: environment.WORK_BUCKET,
      mlflow,
      startMonitoring: async (run, input) => {
        const { STATE_MACHINE_ARN: machine = '' } = environment;
        await startOnce(stepFunctions, machine, run, input);
        return `${machine.replace(':stateMachine:', ':execution:')}:${run}`;
      },
      remainingMs: () => context.getRemainingTimeInMillis(),
    }),
);
