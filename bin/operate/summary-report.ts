/**
 * What several runs did, from their summaries, as lines that people and scripts can read: totals, verdicts, and the
 * reasons for quarantine.
 */

import type { S3Client } from '@aws-sdk/client-s3';
import { Storage } from '../../src/core/aws/storage.ts';
import { type QuarantineEntry, VERDICT_TERMS, type VerdictCounts } from '../../src/core/contract/receipts.ts';
import { workKeys } from '../../src/core/contract/work-keys.ts';
import { singleLine, wrapped } from '../../src/core/text/terminal-text.ts';
import { addCounts, noCounts } from '../../src/core/values/counts.ts';
import { sum } from '../../src/core/values/sum.ts';
import type { Health } from '../../src/health/findings.ts';
import { findingLines, nextLines, stateLines } from '../../src/health/text.ts';
import { quarantinedEntries } from '../../src/monitoring/plan/retry-source.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import type { TextOptions } from '../cli/output.ts';
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

type Totals = ReturnType<typeof addUp>;

/** Adds up the summaries of runs. */
export function addUp(summaries: readonly RunSummary[]) {
  const sum = (value: (summary: RunSummary) => number) => summaries.reduce((total, one) => total + value(one), 0);
  const verdicts = (term: keyof VerdictCounts) => sum((one) => one.verdicts[term]);
  const byScorer: RunSummary['verdictsByScorer'] = {};
  for (const { verdictsByScorer } of summaries) {
    for (const [scorer, values] of Object.entries(verdictsByScorer)) {
      byScorer[scorer] ??= {};
      const total = byScorer[scorer];
      for (const [value, count] of Object.entries(values)) total[value] = (total[value] ?? 0) + count;
    }
  }
  const good = noCounts();
  const isTold = summaries.every((one) => one.good !== undefined);
  for (const one of isTold ? summaries : []) addCounts(good, one.good ?? {});
  return {
    runs: summaries.length,
    failedRuns: sum((one) => (one.status === 'failed' ? 1 : 0)),
    /** Non-blank lines. */
    captured: sum((one) => one.lines.planned),
    traced: sum((one) => one.lines.traced),
    quarantined: sum((one) => one.lines.quarantined),
    outsideWindow: sum((one) => one.lines.outsideWindow),
    /** Traces with a verdict. */
    evaluated: sum((one) => one.evaluatedTraces),
    /** Lost lines and verdicts, and verdicts that are recorded as errors. */
    failed: sum((one) => one.lines.lost) + verdicts('failed'),
    verdicts: Object.fromEntries(VERDICT_TERMS.map((term) => [term, verdicts(term)])) as unknown as VerdictCounts,
    judgeCalls: sum((one) => one.spend.calls),
    judgeTokens: sum((one) => one.spend.inputTokens + one.spend.outputTokens),
    /** US dollars; `null` if the judge's price is unknown. */
    cost: summaries.some((one) => one.spend.usd === null) ? null : sum((one) => one.spend.usd ?? 0),
    verdictsByScorer: byScorer,
    /** How many of these verdicts are good; nothing if a summary does not tell it. */
    good,
  };
}

/** Returns the figures in one line. Those that are 0 are left out, but for the first. */
export function totalsLine(totals: Totals): string {
  const { captured, cost, verdicts, failedRuns, ...counts } = totals;
  const others: [string, number][] = [
    ['traced', counts.traced],
    ['quarantined', counts.quarantined],
    ['outside the window', counts.outsideWindow],
    ['judged', counts.evaluated],
    ['verdicts', verdicts.newVerdicts],
    ['held verdicts', verdicts.heldByBudget],
    ['failed', counts.failed],
    ['judge calls', counts.judgeCalls],
    ['runs', counts.runs],
    ['failed runs', failedRuns],
  ];
  const shown = others.filter(([, count]) => count > 0).map(([name, count]) => `${name} ${count}`);
  return [`captured ${captured}`, ...shown, `judge $${cost === null ? ' unknown' : cost.toFixed(4)}`].join(', ');
}

/** Returns the state of the endpoint by what runs have processed, why, and the figures. @param health absent while a run is running */
export const summaryLines = (totals: Totals, health: Health | undefined, { width, style }: TextOptions): string[] => [
  ...(health === undefined
    ? []
    : [
        ...stateLines(health, width, style),
        ...findingLines(health.findings, width, style),
        ...nextLines(health, style),
      ]),
  ...wrapped(totalsLine(totals), width),
];

/** Returns a line per scorer: the share that is good, else each value with its count, or the mean of a numeric scorer. */
export function verdictLines(totals: Totals): string[] {
  const scorers = Object.keys(totals.verdictsByScorer).sort();
  const width = Math.max(0, ...scorers.map((name) => name.length));
  return scorers.map((name) => {
    const values = totals.verdictsByScorer[name] ?? {};
    return `  ${name.padEnd(width)}  ${isNumeric(values) ? meanOf(values) : shareText(values, totals.good[name])}`;
  });
}

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

/** Returns the lines to print: each reason, with its first lines. @param fileOf maps a key in the capture bucket to the user's file */
export const quarantineLines = (reasons: readonly ReasonWithLines[], fileOf: (key: string) => string): string[] =>
  reasons.flatMap(({ reason, count, lines }) => [
    `${reason}: ${count}`,
    ...lines.map((one) => {
      const message = singleLine(one.reason.message);
      const cut = message.length > MAX_MESSAGE_CHARS ? `${message.slice(0, MAX_MESSAGE_CHARS)}…` : message;
      return `  ${singleLine(fileOf(one.key))}:${one.line}: ${cut}`;
    }),
    ...(count > lines.length ? [`  and ${count - lines.length} more`] : []),
  ]);
