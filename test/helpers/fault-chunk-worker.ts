/** Runs one step of one chunk in a separate process, so that a test can kill it like a Lambda: without any cleanup. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { Storage } from '../../src/core/aws/storage.ts';
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { createJudgeOver } from '../../src/judge/judge-capture.ts';
import { readParameters } from '../../src/judge/parameters.ts';
import { priceCall } from '../../src/judge/pricing/prices.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { bedrockTransport, createBedrockClient } from '../../src/judge/transports/bedrock.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { createMlflowClient } from '../../src/mlflow/client.ts';
import { evaluateChunk, logChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { emulated } from './emulated.ts';

export type ChunkStep = 'log' | 'evaluate';

export interface ChunkJob {
  step: ChunkStep;
  request: ChunkRequest;
  variables: Record<string, string>;
  awsUrl: string;
  s3Url: string;
  mlflowUrl: string;
  judgeUrl: string;
}

/** Longer than any test runs before it kills the process. */
const LAMBDA_MS = 300_000;

async function main(): Promise<void> {
  const { step, request, variables, awsUrl, s3Url, mlflowUrl, judgeUrl } = JSON.parse(
    process.argv[2] ?? '',
  ) as ChunkJob;
  const s3 = new S3Client(emulated(s3Url));
  const store = createMlflowClient({ trackingUri: mlflowUrl, s3 });
  const environment = readEnvironment(variables);
  const dynamo = new DynamoDBClient(emulated(awsUrl));
  const table = new LimitsTable(dynamo, 'fault-limits');
  const remainingMs = () => LAMBDA_MS;
  const deps = { storage: new Storage(s3), store, environment, table, remainingMs, requestId: 'killed' };
  if (step === 'log') {
    await logChunk(request, deps);
    return;
  }
  const { BEDROCK_MODEL_ID: model } = environment;
  const transport = bedrockTransport(model, readParameters(), createBedrockClient(emulated(judgeUrl)));
  await evaluateChunk(request, {
    ...deps,
    answers: new LimitsTable(dynamo, 'answers'),
    judge: createJudgeOver(transport, { price: (usage) => priceCall(model, usage) }),
    scorers: scorersFor({ guidelines: {} }),
    always: () => undefined,
  });
}

void main();
