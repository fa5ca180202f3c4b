/** SummarizeReplay: the results of all shards → the figures, and whether the execution must fail. */
import { SFNClient } from '@aws-sdk/client-sfn';
import { startOnce } from '../../src/core/aws/start-once.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { SummarizeReplayRequest, SummarizeReplayResult } from '../../src/core/contract/replay.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readReplayEnvironment } from '../../src/core/settings/environment.ts';
import { summarizeReplay } from '../../src/replay/cloud/summarize/summarize.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());
const stepFunctions = new SFNClient({});

export const handler = logged<SummarizeReplayRequest, SummarizeReplayResult>((request) =>
  summarizeReplay(request, {
    storage,
    workBucket: environment.WORK_BUCKET,
    startMonitoring: async (run, input) => {
      const { STATE_MACHINE_ARN: machine = '' } = environment;
      await startOnce(stepFunctions, machine, run, input);
      return `${machine.replace(':stateMachine:', ':execution:')}:${run}`;
    },
  }),
);
