/** StopReplay: when an execution was stopped or has failed, ends the sending and has the measurements summarized. */
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import type { Context } from 'aws-lambda';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { type EndedExecution, endedExecutionSchema, type StopReplayResult } from '../../src/core/contract/replay.ts';
import { recordedError } from '../../src/core/errors/errors.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readReplayEnvironment } from '../../src/core/settings/environment.ts';
import { stopReplay } from '../../src/replay/cloud/stop/stop-replay.ts';

/** Time reserved to report the error. A called function continues to run, and the next attempt finds its result. */
const TELL_RESERVE_MS = 20_000;

const environment = readReplayEnvironment();
const storage = new Storage(createS3Client());
const lambda = new LambdaClient({});
const { replaySummarizer, replayPublisher } = resourceNames(environment.STACK_PREFIX);

/** Calls a function and waits for its result. @throws PermanentError with the name of the function's own error */
async function call<T>(FunctionName: string, request: object, context: Context): Promise<T> {
  const abortSignal = AbortSignal.timeout(Math.max(1, context.getRemainingTimeInMillis() - TELL_RESERVE_MS));
  const invoke = new InvokeCommand({ FunctionName, Payload: JSON.stringify(request) });
  const { FunctionError, Payload } = await lambda.send(invoke, { abortSignal });
  const reply = JSON.parse(Payload?.transformToString() || 'null');
  if (FunctionError === undefined) return reply as T;
  const { errorType = FunctionError, errorMessage = '' } = (reply ?? {}) as Record<string, string>;
  throw recordedError({ name: errorType, message: errorMessage }, { where: FunctionName });
}

export const handler = logged<EndedExecution, StopReplayResult>((event, context) =>
  stopReplay(endedExecutionSchema.parse(event), {
    storage,
    workBucket: environment.WORK_BUCKET,
    summarize: (request) => call(replaySummarizer, request, context),
    publish: (request) => call(replayPublisher, request, context),
    // Do not wait for the result, because there may be no time left.
    endRun: (request) =>
      lambda.send(
        new InvokeCommand({
          FunctionName: replayPublisher,
          InvocationType: 'Event',
          Payload: JSON.stringify(request),
        }),
      ),
    remainingMs: () => context.getRemainingTimeInMillis(),
  }),
);
