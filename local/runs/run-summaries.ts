import { GetObjectCommand, NoSuchKey } from '@aws-sdk/client-s3';
import { workKeys } from '../../src/contract/work-keys.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { AwsClients } from '../stack/aws-clients.ts';

/**
 * Reads `summary.json` of each run from the work bucket.
 *
 * @returns summaries by run; a run that ended before it wrote one has none
 */
export async function readRunSummaries(
  clients: Pick<AwsClients, 's3'>,
  workBucket: string,
  runs: readonly { name: string }[],
): Promise<Map<string, RunSummary>> {
  const summaries = new Map<string, RunSummary>();
  for (const { name } of runs) {
    try {
      const object = await clients.s3.send(new GetObjectCommand({ Bucket: workBucket, Key: workKeys.summary(name) }));
      summaries.set(name, JSON.parse((await object.Body?.transformToString()) ?? '') as RunSummary);
    } catch (error) {
      if (!(error instanceof NoSuchKey)) throw error;
    }
  }
  return summaries;
}
