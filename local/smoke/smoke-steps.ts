/** The steps of the smoke test, each of which says what it found. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { DeleteObjectCommand } from '@aws-sdk/client-s3';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import type { StoredAssessment } from '../../src/mlflow/types.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { type LambdaEnvironment, readEnvironment } from '../../src/settings/environment.ts';
import { traceIdOf } from '../../src/trace/ids.ts';
import { processFiles, type Run } from '../runs/process-files.ts';
import { readRunSummaries } from '../runs/run-summaries.ts';
import type { AwsClients } from '../stack/aws-clients.ts';
import type { StackOutputs } from '../stack/stack-outputs.ts';

/** The deployed functions' own environment: what is really in force, whatever `.env` says here. */
export async function deployedEnvironment(clients: AwsClients, outputs: StackOutputs): Promise<LambdaEnvironment> {
  const reply = await clients.lambda.send(new GetFunctionConfigurationCommand({ FunctionName: outputs.processorArn }));
  return readEnvironment(reply.Environment?.Variables ?? {});
}

interface SmokeCapture {
  key: string;
  /** One record, without a line ending. */
  line: string;
}

/** One chat call of this moment, unlike any other, so that no earlier run has its trace. */
export function smokeCapture(environment: LambdaEnvironment, now = new Date()): SmokeCapture {
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

/** Puts the capture and waits for the execution that the rule starts. */
export async function putAndFollow(
  clients: AwsClients,
  outputs: StackOutputs,
  capture: SmokeCapture,
  onProgress: (text: string) => void,
): Promise<Run> {
  const folder = mkdtempSync(join(tmpdir(), 'smoke-'));
  try {
    const path = join(folder, 'capture.jsonl');
    writeFileSync(path, `${capture.line}\n`);
    const runs = await processFiles({
      clients,
      captureBucket: outputs.captureBucket,
      stateMachineArn: outputs.stateMachineArn,
      files: [{ path, key: capture.key, bytes: Buffer.byteLength(capture.line) + 1 }],
      atOnce: 1,
      onProgress: ({ runs }) => onProgress(runs[0] ? `running ${runs[0].name}` : 'waiting for the rule'),
    });
    // EventBridge may deliver twice; the duplicate ends by itself, and the other one did the work.
    const run = runs.find((one) => !one.output?.includes('duplicate')) ?? runs[0];
    if (!run) throw new Error('No execution was found for the capture that was put');
    return run;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export async function summaryOf(clients: AwsClients, outputs: StackOutputs, run: Run): Promise<RunSummary | undefined> {
  return (await readRunSummaries(clients, outputs.workBucket, [run])).get(run.name);
}

interface FoundTrace {
  traceId: string;
  experiment: string;
  state?: string;
  assessments: StoredAssessment[];
}

/** Looks the capture's trace up in MLflow, as the deployed functions reach it. */
export async function findTrace(
  clients: AwsClients,
  environment: LambdaEnvironment,
  capture: SmokeCapture,
): Promise<FoundTrace> {
  const store = await connectMlflow(environment, clients.s3)();
  const experiment = await store.resolveExperiment(environment.MLFLOW_EXPERIMENT_NAME);
  const traceId = traceIdOf(experiment.id, Buffer.from(capture.line));
  const stored = (await store.getTraces(experiment.id, [traceId])).get(traceId);
  return { traceId, experiment: experiment.name, state: stored?.state, assessments: stored?.assessments ?? [] };
}

/** The capture goes from the bucket; its trace stays, named by its id. */
export async function removeCapture(clients: AwsClients, outputs: StackOutputs, capture: SmokeCapture): Promise<void> {
  await clients.s3.send(new DeleteObjectCommand({ Bucket: outputs.captureBucket, Key: capture.key }));
}
