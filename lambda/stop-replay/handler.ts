/** StopReplay: a replay whose execution was stopped → no more is sent, and what is to be done next. */
import { createS3Client, Storage } from '../common/storage.ts';
import { logged } from '../common/telemetry.ts';
import { readReplayEnvironment } from '../replay/cloud/environment.ts';
import { stopReplay } from '../replay/cloud/stop-replay.ts';
import { type EndedExecution, endedExecutionSchema, type StopReplayResult } from '../replay-contract.ts';

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());

export const handler = logged<EndedExecution, StopReplayResult>((event) =>
  stopReplay(endedExecutionSchema.parse(event), { storage, workBucket: environment.WORK_BUCKET }),
);
