/** The reasons for which lines are in quarantine, for the terminal. */
import type { S3Client } from '@aws-sdk/client-s3';
import { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { singleLine } from '../../src/core/text/terminal-text.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';

export interface ReasonWithLines {
  reason: string;
  count: number;
  /** The first few of these lines. */
  lines: Pick<QuarantineEntry, 'key' | 'line' | 'reason'>[];
}

/** Lines shown per reason. The others are counted. */
const MAX_LINES_SHOWN = 3;
/** Characters of a reason's message. */
const MAX_MESSAGE_CHARS = 300;

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
  for (const { workBucket, summary } of runs) {
    const { run, quarantineReasons } = summary;
    const wanted = new Map<string, number>();
    for (const [reason, count] of Object.entries(quarantineReasons)) {
      const all = found.get(reason) ?? { reason, count: 0, lines: [] };
      found.set(reason, all);
      all.count += count;
      wanted.set(reason, Math.min(count, MAX_LINES_SHOWN - all.lines.length));
    }
    // Ends as soon as it can, since the objects contain the lines themselves.
    const isDone = () => [...wanted.values()].every((count) => count <= 0);
    if (isDone()) continue;
    for await (const { entry } of quarantinedEntries(storage, workBucket, run)) {
      const { name, message } = entry.reason;
      const left = wanted.get(name) ?? 0;
      if (left <= 0) continue;
      wanted.set(name, left - 1);
      found.get(name)?.lines.push({ key: entry.key, line: entry.line, reason: { name, message } });
      if (isDone()) break;
    }
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}

/**
 * Returns the lines to print.
 *
 * @param fileOf maps a key in the capture bucket to the user's file
 * @param rest a sentence that states where all quarantined lines are
 */
export function quarantineLines(
  reasons: readonly ReasonWithLines[],
  fileOf: (key: string) => string,
  rest: string,
): string[] {
  if (reasons.length === 0) return [];
  return [
    '── Quarantined ──',
    ...reasons.flatMap(({ reason, count, lines }) => [
      `${reason}: ${count}`,
      ...lines.map((one) => {
        const message = singleLine(one.reason.message);
        const cut = message.length > MAX_MESSAGE_CHARS ? `${message.slice(0, MAX_MESSAGE_CHARS)}…` : message;
        return `  ${singleLine(fileOf(one.key))}:${one.line}: ${cut}`;
      }),
      ...(count > lines.length ? [`  and ${count - lines.length} more`] : []),
    ]),
    rest,
    '',
  ];
}
