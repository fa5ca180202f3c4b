/**
 * What several runs did, from their summaries, as lines that people and scripts can read: totals, verdicts, and the
 * reasons for quarantine.
 */

import type { S3Client } from '@aws-sdk/client-s3';
import { Storage } from '../../src/core/aws/storage.ts';
import type { QuarantineEntry } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { excerpt, singleLine, type TextOptions, wrapped } from '../../src/core/text/terminal-text.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import { sum } from '../../src/core/values/sum.ts';
import type { Health } from '../../src/health/findings.ts';
import { healthLines } from '../../src/health/text.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
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
    const summary = await storage.getJson<RunSummary>(workBucket, workKeys.summary(name));
    if (summary) summaries.set(name, summary);
  }
  return summaries;
}

/** The figures of a run, in their order. */
const FIGURES: readonly [name: string, of: (one: RunSummary) => number][] = [
  ['captured', ({ lines }) => lines.planned],
  ['traced', ({ lines }) => lines.traced],
  ['quarantined', ({ lines }) => lines.quarantined],
  ['outside the window', ({ lines }) => lines.outsideWindow],
  ['judged', ({ evaluatedTraces }) => evaluatedTraces],
  ['verdicts', ({ verdicts }) => verdicts.newVerdicts],
  ['held verdicts', ({ verdicts }) => verdicts.heldByBudget],
  // Lost lines and verdicts, and verdicts that are recorded as errors.
  ['failed', ({ lines, verdicts }) => lines.lost + verdicts.failed],
  ['judge calls', ({ spend }) => spend.calls],
  ['runs', () => 1],
  ['failed runs', ({ status }) => (status === 'failed' ? 1 : 0)],
];

/** Returns the figures of several runs in one line. Those that are 0 are left out, but for the first. */
export function totalsLine(summaries: readonly RunSummary[]): string {
  const figures = FIGURES.map(([name, of]) => ({ name, count: sum(summaries.map(of)) }));
  const shown = figures.filter(({ count }, index) => index === 0 || count > 0);
  // `null` if the judge's price is unknown.
  const usd = summaries.some((one) => one.spend.usd === null) ? null : sum(summaries.map((one) => one.spend.usd ?? 0));
  const cost = `judge $${usd === null ? ' unknown' : usd.toFixed(4)}`;
  return [...shown.map(({ name, count }) => `${name} ${count}`), cost].join(', ');
}

/** The state with the name of the endpoint. */
export const named = (health: Health, name: string): Health => ({ ...health, words: `${name}: ${health.words}` });

/** Returns the state of the endpoint by what runs have processed, why, and the figures. @param health absent while a run is running */
export const summaryLines = (
  summaries: readonly RunSummary[],
  health: Health | undefined,
  out: TextOptions,
  endpoint?: string,
): string[] => [
  ...(health === undefined ? [] : healthLines(endpoint ? named(health, endpoint) : health, out)),
  ...wrapped(totalsLine(summaries), out.width),
];

/** Returns a line per scorer: the share that is good, else each value with its count, or the mean of a numeric scorer. */
export function verdictLines(summaries: readonly RunSummary[]): string[] {
  const byScorer = new Map<string, Record<string, number>>();
  for (const [scorer, values] of summaries.flatMap(({ verdictsByScorer }) => Object.entries(verdictsByScorer))) {
    const total = byScorer.get(scorer) ?? noCounts();
    byScorer.set(scorer, total);
    addCounts(total, values);
  }
  const good = noCounts();
  // A run that is running does not tell it.
  const isTold = summaries.every((one) => one.good !== undefined);
  for (const one of isTold ? summaries : []) addCounts(good, one.good ?? {});
  const width = Math.max(0, ...[...byScorer.keys()].map((name) => name.length));
  return [...byScorer].sort(byName).map(([name, values]) => {
    return `  ${name.padEnd(width)}  ${isNumeric(values) ? meanOf(values) : shareText(values, good[name])}`;
  });
}

const byName = ([a]: [string, unknown], [b]: [string, unknown]): number => (a < b ? -1 : 1);

/** A numeric scorer is summarized as `count` and `sum`. */
const isNumeric = (values: Record<string, number>): boolean =>
  Object.keys(values).length > 0 && Object.keys(values).every((name) => name === 'count' || name === 'sum');

const meanOf = ({ count = 0, sum = 0 }: Record<string, number>): string =>
  `mean ${count === 0 ? 0 : Number((sum / count).toFixed(1))} of ${count}`;

function shareText(values: Record<string, number>, good: number | undefined): string {
  const counts = Object.entries(values).sort(([, a], [, b]) => b - a);
  if (good === undefined) return counts.map(([value, count]) => `${value} ${count}`).join(', ');
  const all = sum(Object.values(values));
  return `good ${((100 * good) / all).toFixed(1)}% (${good} of ${all})`;
}

// ------------------------------------------------------------------------------------------------------ quarantine

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

/** Returns the lines to print: each reason, with its first lines. @param fileOf maps a key in the capture bucket to the user's file */
export const quarantineLines = (reasons: readonly ReasonWithLines[], fileOf: (key: string) => string): string[] =>
  reasons.flatMap(({ reason, count, lines }) => [
    `${reason}: ${count}`,
    ...lines.map(
      (one) => `  ${singleLine(fileOf(one.key))}:${one.line}: ${excerpt(one.reason.message, MAX_MESSAGE_CHARS)}`,
    ),
    ...(count > lines.length ? [`  and ${count - lines.length} more`] : []),
  ]);
