/** Reads the summaries of runs, and their quarantined lines by reason. */

import type { S3Client } from '@aws-sdk/client-s3';
import { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { AwsClients } from './aws-clients.ts';

/** Reads the summary of a run; `undefined` if it ended before it wrote one. */
export const readRunSummary = ({ s3 }: Pick<AwsClients, 's3'>, workBucket: string, run: string) =>
  new Storage(s3).getJson<RunSummary>(workBucket, workKeys.summary(run));

export interface ReasonWithLines {
  reason: string;
  count: number;
  /** The first few of these lines. */
  lines: Pick<QuarantineEntry, 'key' | 'line' | 'reason'>[];
}

/** Lines shown per reason. The others are counted. */
const MAX_LINES_SHOWN = 3;

/**
 * Counts the quarantined lines of runs by reason, and reads the first few of each reason from the work buckets.
 *
 * @param runs the summary and the work bucket of each run
 */
export async function readReasons(
  s3: S3Client,
  runs: readonly { workBucket: string; summary: RunSummary }[],
): Promise<ReasonWithLines[]> {
  const storage = new Storage(s3);
  const found = new Map<string, ReasonWithLines>();
  // Reading ends as soon as it can, since the objects contain the lines themselves.
  const isDone = () =>
    [...found.values()].every(({ count, lines }) => lines.length >= Math.min(count, MAX_LINES_SHOWN));
  for (const { workBucket, summary } of runs) {
    for (const [reason, count] of Object.entries(summary.quarantineReasons)) {
      const all = found.get(reason) ?? { reason, count: 0, lines: [] };
      found.set(reason, all);
      all.count += count;
    }
    if (isDone()) continue;
    for await (const { entry } of quarantinedEntries({ storage, workBucket }, summary.run)) {
      const { key, line, reason } = entry;
      const lines = found.get(reason.name)?.lines ?? [];
      if (lines.length < MAX_LINES_SHOWN) lines.push({ key, line, reason });
      if (isDone()) break;
    }
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}
