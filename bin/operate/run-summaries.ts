/** Reads the summaries of runs. */

import { Storage } from '../../src/core/aws/storage.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { AwsClients } from './aws-clients.ts';

/**
 * Reads `summary.json` of each run from the work bucket.
 *
 * @returns summaries by run, without the runs that ended before they wrote one
 */
export async function readRunSummaries(
  { s3 }: Pick<AwsClients, 's3'>,
  workBucket: string,
  runs: readonly { name: string }[],
): Promise<Map<string, RunSummary>> {
  const storage = new Storage(s3);
  const summaries = new Map<string, RunSummary>();
  for (const { name } of runs) {
    const object = await storage.getText(workBucket, workKeys.summary(name));
    if (object) summaries.set(name, JSON.parse(object.text) as RunSummary);
  }
  return summaries;
}
