/** Logs one chunk in a process of its own, so that a test can kill it as a Lambda is killed: without a last word. */
import { S3Client } from '@aws-sdk/client-s3';
import { readEnvironment } from '../../lambda/common/environment.ts';
import { Storage } from '../../lambda/common/storage.ts';
import type { ChunkRequest } from '../../lambda/contract.ts';
import { createMlflowClient } from '../../lambda/mlflow/client.ts';
import { logChunk } from '../../lambda/run/log-chunk.ts';

export interface LogJob {
  request: ChunkRequest;
  variables: Record<string, string>;
  s3Url: string;
  mlflowUrl: string;
}

async function main(): Promise<void> {
  const { request, variables, s3Url, mlflowUrl } = JSON.parse(process.argv[2] ?? '') as LogJob;
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const s3 = new S3Client({ endpoint: s3Url, region: 'us-east-1', forcePathStyle: true, credentials });
  const store = createMlflowClient({ trackingUri: mlflowUrl, s3 });
  const deps = { storage: new Storage(s3), store, environment: readEnvironment(variables), requestId: 'killed' };
  await logChunk(request, deps);
}

void main();
