/** The steps of the smoke test. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import { functionVariables } from '../../bin/operate/aws-calls.ts';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { startedRuns } from '../../bin/operate/process-files.ts';
import { followRuns, type RunProgress, runWatcher } from '../../bin/operate/run-progress.ts';
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import { Storage } from '../../src/core/aws/storage.ts';
import type { StackOutputs } from '../../src/core/contract/names.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { type LambdaEnvironment, readEnvironment } from '../../src/core/settings/environment.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';

/** Reads the environment of the deployed functions: the settings in effect, whatever the local `.env` says. */
export const deployedEnvironment = async (clients: AwsClients, outputs: StackOutputs): Promise<LambdaEnvironment> =>
  readEnvironment(await functionVariables(clients.lambda, outputs.processorArn));

/** Reads the summary of a run; `undefined` if it ended before it wrote one. */
export const readRunSummary = ({ s3 }: Pick<AwsClients, 's3'>, workBucket: string, run: string) =>
  new Storage(s3).getJson<RunSummary>(workBucket, workKeys.summary(run));

type SmokeCapture = ReturnType<typeof smokeCapture>;

/** Makes a chat call that is unique, so that no earlier run has its trace. @returns its key, and its line without an ending */
export function smokeCapture(environment: LambdaEnvironment, now = new Date()) {
  const id = randomUUID();
  const side = (mode: string, data: unknown) => ({
    observedContentType: 'application/json',
    mode,
    data: JSON.stringify(data),
    encoding: 'JSON',
  });
  const question = `What does a smoke test show? (${id.slice(0, 8)})`;
  const answer = 'It shows that the parts of a system work together at all, before anything else is tested.';
  const line = JSON.stringify({
    captureData: {
      endpointInput: side('INPUT', {
        messages: [
          { role: 'system', content: 'You explain software testing in one sentence.' },
          { role: 'user', content: question },
        ],
      }),
      endpointOutput: side('OUTPUT', {
        choices: [{ index: 0, message: { role: 'assistant', content: answer }, finish_reason: 'stop' }],
        usage: { prompt_tokens: 24, completion_tokens: 18, total_tokens: 42 },
      }),
    },
    eventMetadata: { eventId: id, inferenceTime: `${now.toISOString().slice(0, 19)}Z` },
    eventVersion: '0',
  });
  const hour = now.toISOString().slice(0, 13).replace(/[-T]/g, '/');
  return { key: `${environment.DATA_CAPTURE_S3_PREFIX}smoke-test/${hour}/smoke-${id}.jsonl`, line };
}

/** Puts a capture file, and waits for the execution that starts for it; for all, if EventBridge has delivered its event twice. */
export async function putAndFollow(
  clients: AwsClients,
  outputs: StackOutputs,
  { key, text }: { key: string; text: string },
  more: { onProgress?: (text: string) => void; signal?: AbortSignal } = {},
): Promise<{ run: RunProgress; executions: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'captures-'));
  try {
    const path = join(folder, 'captures.jsonl');
    writeFileSync(path, text);
    const files = [{ path, key, bytes: Buffer.byteLength(text) }];
    const onWait = more.onProgress;
    const onPoll = ([run]: readonly { name: string }[]): void => more.onProgress?.(`running ${run?.name}`);
    const { signal } = more;
    const work = { storage: new Storage(clients.s3), workBucket: outputs.workBucket };
    const started = await startedRuns({ clients, work, outputs }, files, onWait, signal);
    const watchers = started.map((run) => runWatcher(clients.sfn, work, run));
    const runs = await followRuns(watchers, onPoll, signal);
    // A duplicate ends by itself; the other execution did the work.
    const run = runs.find((one) => !one.output?.includes('duplicate')) ?? runs[0];
    if (!run) throw new Error('No execution started for the capture');
    return { run, executions: runs.length };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Looks up the capture's trace in MLflow, with the connection of the deployed functions. */
export async function findTrace(clients: AwsClients, environment: LambdaEnvironment, capture: SmokeCapture) {
  const store = await connectMlflow(environment, clients.s3)();
  const experiment = await store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
  const traceId = traceIdOf(experiment.id, Buffer.from(capture.line));
  const stored = (await store.getTraces(experiment.id, [traceId])).get(traceId);
  return { traceId, experiment: experiment.name, state: stored?.state, assessments: stored?.assessments ?? [] };
}

/** Removes the capture from the bucket. Its trace stays. */
export async function removeCapture(clients: AwsClients, outputs: StackOutputs, capture: SmokeCapture): Promise<void> {
  await clients.s3.send(new DeleteObjectCommand({ Bucket: outputs.captureBucket, Key: capture.key }));
}
