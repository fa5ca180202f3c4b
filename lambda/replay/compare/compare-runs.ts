/** Two runs of the same captures: what is faster, what is slower, what is worse. */
import { join } from 'node:path';
import { bootstrapDifferences, type Difference, type Statistic, shareDifference } from './bootstrap.ts';
import { compareReplies } from './compare-replies.ts';
import { type JudgeSettings, judgeAll, worthJudging } from './judge-replies.ts';
import { type Quality, QualityTally, type RegressionRow } from './quality.ts';
import { REPLIES_FILE, readReplies, replyMessageOf, replyText, type StoredReply } from './replies-file.ts';
import { type ComparedMetric, METRIC_TAGS, type RunData } from './run-data.ts';

export interface RunsComparison {
  before: RunFacts;
  after: RunFacts;
  /** Requests that both runs sent, and what became of them. */
  paired: { requests: number; newlyFailing: number; newlySucceeding: number; onlyBefore: number; onlyAfter: number };
  metrics: Partial<Record<ComparedMetric, Record<Statistic, Difference>>>;
  errorRate: Difference;
  requestThroughput?: [before: number, after: number];
  tokenThroughput?: [before: number, after: number];
  /** Replies of the second run against those of the first, where both kept theirs. */
  quality?: Quality;
  regressions: RegressionRow[];
  /** Requests whose latency grew most, ms. */
  slowed: { key: string; before: number; after: number }[];
  judgeUsd?: number | null;
  notes: string[];
}

export interface RunFacts {
  run: string;
  directory: string;
  target: Record<string, string>;
  requests: number;
  failed: number;
}

const SLOWED = 20;

const factsOf = ({ run, directory, target, requests, failed }: RunData): RunFacts => ({
  run,
  directory,
  target,
  requests: requests.size,
  failed,
});

const both = (before: number | undefined, after: number | undefined): [number, number] | undefined =>
  before === undefined || after === undefined ? undefined : [before, after];

/** @param judging asks about every pair of replies that differ */
export async function compareRuns(before: RunData, after: RunData, judging?: JudgeSettings): Promise<RunsComparison> {
  const requestThroughput = both(before.requestThroughput, after.requestThroughput);
  const tokenThroughput = both(before.tokenThroughput, after.tokenThroughput);
  const comparison: RunsComparison = {
    before: factsOf(before),
    after: factsOf(after),
    paired: { requests: 0, newlyFailing: 0, newlySucceeding: 0, onlyBefore: 0, onlyAfter: 0 },
    metrics: {},
    errorRate: shareDifference([before.failed, before.requests.size], [after.failed, after.requests.size]),
    ...(requestThroughput ? { requestThroughput } : {}),
    ...(tokenThroughput ? { tokenThroughput } : {}),
    regressions: [],
    slowed: [],
    notes: notesOf(before, after),
  };
  compareRequests(before, after, comparison);
  if (before.hasReplies && after.hasReplies) await compareQuality(before, after, comparison, judging);
  return comparison;
}

function notesOf(before: RunData, after: RunData): string[] {
  const notes: string[] = [];
  for (const { run, bottleneck, wasCancelled } of [before, after]) {
    if (bottleneck) notes.push(`In ${run} the client was the bottleneck: ${bottleneck}.`);
    if (wasCancelled) notes.push(`${run} was stopped before its end.`);
  }
  if (!before.hasReplies || !after.hasReplies) {
    notes.push('The replies are not compared: both runs must have kept them (replay with --compare).');
  }
  return notes;
}

function compareRequests(before: RunData, after: RunData, comparison: RunsComparison): void {
  const { paired } = comparison;
  const pairs = METRIC_TAGS.map(() => ({ before: [] as number[], after: [] as number[] }));
  const slowed: RunsComparison['slowed'] = [];
  for (const [key, was] of before.requests) {
    const is = after.requests.get(key);
    if (!is) {
      paired.onlyBefore++;
      continue;
    }
    paired.requests++;
    if (was.ok && !is.ok) paired.newlyFailing++;
    if (!was.ok && is.ok) paired.newlySucceeding++;
    for (const [i, pair] of pairs.entries()) {
      const [from, to] = [was.values[i] ?? Number.NaN, is.values[i] ?? Number.NaN];
      if (Number.isNaN(from) || Number.isNaN(to)) continue;
      pair.before.push(from);
      pair.after.push(to);
      if (i === 0) addSlowed(slowed, { key, before: from, after: to });
    }
  }
  paired.onlyAfter = after.requests.size - paired.requests;
  comparison.slowed = slowed.sort(bySlowdown).slice(0, SLOWED);
  for (const [i, tag] of METRIC_TAGS.entries()) {
    const pair = pairs[i];
    const differences =
      pair && bootstrapDifferences(Float64Array.from(pair.before), Float64Array.from(pair.after), true);
    if (differences) comparison.metrics[tag] = differences;
  }
  if (paired.requests > 0) return;
  comparison.notes.push('No request is in both runs: their latencies are compared as two independent samples.');
  for (const [i, tag] of METRIC_TAGS.entries()) {
    const differences = bootstrapDifferences(valuesOf(before, i), valuesOf(after, i), false);
    if (differences) comparison.metrics[tag] = differences;
  }
}

const valuesOf = (run: RunData, metric: number): Float64Array =>
  Float64Array.from(
    [...run.requests.values()]
      .map(({ values }) => values[metric] ?? Number.NaN)
      .filter((value) => !Number.isNaN(value)),
  );

const bySlowdown = (a: { before: number; after: number }, b: { before: number; after: number }): number =>
  b.after - b.before - (a.after - a.before);

function addSlowed(slowed: RunsComparison['slowed'], one: RunsComparison['slowed'][number]): void {
  slowed.push(one);
  if (slowed.length > SLOWED * 50) slowed.sort(bySlowdown).splice(SLOWED);
}

interface RepliesPair {
  stored: StoredReply;
  old: StoredReply;
  comparison: ReturnType<typeof compareReplies>;
}

/** The first run's replies are held by key; those of a million requests of 1 KB are a gigabyte, so only what is needed of each. */
async function compareQuality(
  before: RunData,
  after: RunData,
  comparison: RunsComparison,
  judging: JudgeSettings | undefined,
): Promise<void> {
  const old = new Map<string, StoredReply>();
  for await (const stored of readReplies(join(before.directory, REPLIES_FILE))) {
    // The captured reply and the conversation are in the second run's file too.
    const { captured: _captured, messages: _messages, comparison: _comparison, ...kept } = stored;
    old.set(stored.key, kept);
  }
  const tally = new QualityTally();
  const pairs = async function* (): AsyncGenerator<RepliesPair> {
    for await (const stored of readReplies(join(after.directory, REPLIES_FILE))) {
      const known = old.get(stored.key);
      if (known) yield { stored, old: known, comparison: compareReplies(known.reply, stored.reply) };
    }
  };
  const rowOf = ({ stored, old: known }: RepliesPair): Omit<RegressionRow, 'regressions' | 'overlap'> => ({
    key: stored.key,
    ...(stored.event_id === undefined ? {} : { eventId: stored.event_id }),
    file: stored.file,
    line: stored.line,
    input: stored.input,
    before: replyText(known.reply),
    after: replyText(stored.reply),
  });
  for await (const pair of pairs()) tally.add(pair.comparison, () => rowOf(pair));
  if (judging) {
    const pairOf = ({ stored, old: known, comparison: found }: RepliesPair) => {
      const [first, second] = [replyMessageOf(known.reply), replyMessageOf(stored.reply)];
      return worthJudging(found) && stored.messages && first && second
        ? { messages: stored.messages, before: first, after: second }
        : undefined;
    };
    const { judged, usd } = await judgeAll(judging, pairs(), pairOf, (item, verdict) => {
      if (verdict?.verdict === 'worse') tally.addJudgedWorse(rowOf(item), item.comparison, verdict.rationales[0]);
    });
    tally.quality.judged = judged;
    comparison.judgeUsd = usd;
  }
  comparison.quality = tally.quality;
  comparison.regressions = tally.worst();
}
