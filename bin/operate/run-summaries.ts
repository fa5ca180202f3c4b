/** Reads the summaries of runs, and their quarantined lines by reason. */

import { Storage, type Work } from '../../src/core/aws/storage.ts';
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

/** Counts the quarantined lines of a run by reason, and reads the first few of each reason. */
export async function readReasons(work: Work, { run, quarantineReasons }: RunSummary): Promise<ReasonWithLines[]> {
  const found = Object.entries(quarantineReasons).map(
    ([reason, count]): ReasonWithLines => ({ reason, count, lines: [] }),
  );
  // Reading ends as soon as it can, since the objects contain the lines themselves.
  const isDone = () => found.every(({ count, lines }) => lines.length >= Math.min(count, MAX_LINES_SHOWN));
  for await (const { entry } of isDone() ? [] : quarantinedEntries(work, run)) {
    const { key, line, reason } = entry;
    const lines = found.find((one) => one.reason === reason.name)?.lines ?? [];
    if (lines.length < MAX_LINES_SHOWN) lines.push({ key, line, reason });
    if (isDone()) break;
  }
  return found.sort((a, b) => b.count - a.count);
}
