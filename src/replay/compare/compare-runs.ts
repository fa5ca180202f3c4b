/** Two runs of the same captures: what is faster, what is slower, what is worse. */
import { join } from 'node:path';
import { RecordReader } from '../source/record-reader.ts';
import type { IndexEntry } from '../source/types.ts';
import { bootstrapDifferences, type Difference, NEEDED_VALUES, type Statistic, shareDifference } from './bootstrap.ts';
import { compareReplies } from './compare-replies.ts';
import { jsonLines, parsed } from './json-lines.ts';
import { type JudgeFailure, type JudgeSettings, judgeMost, worthJudging } from './judge-replies.ts';
import type { PairVerdict } from './pairwise.ts';
import { type Quality, QualityTally, type RegressionRow } from './quality.ts';
import { REPLIES_FILE, readReplies, replyMessageOf, replyText, type StoredReply } from './replies-file.ts';
import { RequestTable } from './request-table.ts';
import { type ComparedMetric, METRIC_TAGS, type RunData } from './run-data.ts';

export interface RunsComparison {
  before: RunFacts;
  after: RunFacts;
  /** Requests that both runs sent, and what became of them; `cancelled`: on purpose, in either run. */
  paired: {
    requests: number;
    cancelled: number;
    newlyFailing: number;
    newlySucceeding: number;
    onlyBefore: number;
    onlyAfter: number;
  };
  metrics: Partial<Record<ComparedMetric, Record<Statistic, Difference>>>;
  /** How many values each metric's differences are told from, of how many that the run with more of them has. */
  seen: Partial<Record<ComparedMetric, Seen>>;
  errorRate: Difference;
  requestThroughput?: [before: number, after: number];
  tokenThroughput?: [before: number, after: number];
  /** Replies of the second run against those of the first, where both kept theirs. */
  quality?: Quality;
  regressions: RegressionRow[];
  /** Requests whose latency grew most, ms. */
  slowed: { key: string; before: number; after: number }[];
  judgeUsd?: number | null;
  /** Why the judge was asked no further. */
  judgeFailure?: JudgeFailure;
  notes: string[];
}

export interface Seen {
  seen: number;
  of: number;
}

export interface RunFacts {
  run: string;
  directory: string;
  target: Record<string, string>;
  requests: number;
  /** Those that were cancelled on purpose are neither failures nor successes. */
  failed: number;
  cancelledOnPurpose: number;
}

const SLOWED = 20;

const factsOf = ({ run, location, target, requests, failed, cancelledOnPurpose }: RunData): RunFacts => ({
  run,
  directory: location,
  target,
  requests: requests.size,
  failed,
  cancelledOnPurpose,
});

/** Failed ones, and all of which it can be told. */
const failuresOf = ({ requests, failed, cancelledOnPurpose }: RunData): [number, number] => [
  failed,
  requests.size - cancelledOnPurpose,
];

const both = (before: number | undefined, after: number | undefined): [number, number] | undefined =>
  before === undefined || after === undefined ? undefined : [before, after];

/** @param judging asks about every pair of replies that differ */
export async function compareRuns(before: RunData, after: RunData, judging?: JudgeSettings): Promise<RunsComparison> {
  const requestThroughput = both(before.requestThroughput, after.requestThroughput);
  const tokenThroughput = both(before.tokenThroughput, after.tokenThroughput);
  const comparison: RunsComparison = {
    before: factsOf(before),
    after: factsOf(after),
    paired: { requests: 0, cancelled: 0, newlyFailing: 0, newlySucceeding: 0, onlyBefore: 0, onlyAfter: 0 },
    metrics: {},
    seen: {},
    errorRate: shareDifference(failuresOf(before), failuresOf(after)),
    ...(requestThroughput ? { requestThroughput } : {}),
    ...(tokenThroughput ? { tokenThroughput } : {}),
    regressions: [],
    slowed: [],
    notes: [],
  };
  RequestTable.seal(before.requests, after.requests);
  compareRequests(before, after, comparison);
  if (before.hasReplies && after.hasReplies) await compareQuality(before, after, comparison, judging);
  comparison.notes.unshift(...notesOf(before, after));
  return comparison;
}

function notesOf(before: RunData, after: RunData): string[] {
  const notes: string[] = [];
  for (const { run, bottleneck, wasCancelled, cutLines } of [before, after]) {
    for (const where of cutLines) notes.push(`The last line of a file of ${run} is cut off, and left out: ${where}.`);
    if (bottleneck) notes.push(`In ${run} the client was the bottleneck: ${bottleneck}.`);
    if (wasCancelled) notes.push(`${run} was stopped before its end.`);
  }
  const names = new Set([...Object.keys(before.options), ...Object.keys(after.options)]);
  const told = ({ options }: RunData, name: string): string => JSON.stringify(options[name]) ?? 'not given';
  const others = [...names].filter((name) => told(before, name) !== told(after, name));
  if (others.length > 0) {
    const each = others.map((name) => `${name} ${told(before, name)} and ${told(after, name)}`);
    notes.push(`The two runs were told other things: ${each.join('; ')}.`);
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
  for (const [key, was] of before.requests.entries()) {
    const is = after.requests.row(key);
    if (is === undefined) {
      paired.onlyBefore++;
      continue;
    }
    paired.requests++;
    const [from, to] = [before.requests.outcome(was), after.requests.outcome(is)];
    if (from === 'cancelled' || to === 'cancelled') paired.cancelled++;
    if (from === 'ok' && to === 'failed') paired.newlyFailing++;
    if (from === 'failed' && to === 'ok') paired.newlySucceeding++;
    for (const [i, pair] of pairs.entries()) {
      const [then, now] = [before.requests.value(was, i), after.requests.value(is, i)];
      if (Number.isNaN(then) || Number.isNaN(now)) continue;
      pair.before.push(then);
      pair.after.push(now);
      if (i === 0) addSlowed(slowed, { key, before: then, after: now });
    }
  }
  paired.onlyAfter = after.requests.size - paired.requests;
  comparison.slowed = slowed.sort(bySlowdown).slice(0, SLOWED);
  for (const [i, tag] of METRIC_TAGS.entries()) {
    const pair = pairs[i];
    const differences =
      pair && bootstrapDifferences(Float64Array.from(pair.before), Float64Array.from(pair.after), true);
    const counts = [before, after].map(({ requests }) => requests.column(i).length);
    if (differences) comparison.metrics[tag] = differences;
    comparison.seen[tag] = { seen: pair?.before.length ?? 0, of: Math.max(...counts) };
  }
  if (paired.requests > 0 && paired.requests < NEEDED_VALUES.mean) {
    comparison.notes.push(
      `Only ${paired.requests} requests are in both runs: that is too few to tell a difference of their latencies from chance.`,
    );
  }
  const { size } = before.requests;
  if (paired.requests > 0 && paired.requests * 2 < Math.max(size, after.requests.size)) {
    comparison.notes.push(
      `Of ${size} requests before and ${after.requests.size} after, only ${paired.requests} are in both runs: thresholds are not told from less than half.`,
    );
  }
  if (paired.requests > 0) return;
  comparison.notes.push('No request is in both runs: their latencies are compared as two independent samples.');
  for (const [i, tag] of METRIC_TAGS.entries()) {
    const columns = [before, after].map(({ requests }) => requests.column(i)) as [Float64Array, Float64Array];
    const differences = bootstrapDifferences(...columns, false);
    if (differences) comparison.metrics[tag] = differences;
    const counts = columns.map(({ length }) => length);
    comparison.seen[tag] = { seen: Math.min(...counts), of: Math.max(...counts) };
  }
}

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

/** Of the first run's replies their places are held, and each is read when its pair comes: the runs have nearly one order. */
async function compareQuality(
  before: RunData,
  after: RunData,
  comparison: RunsComparison,
  judging: JudgeSettings | undefined,
): Promise<void> {
  const oldPath = join(before.directory, REPLIES_FILE);
  const places = await placesOf(before);
  const reader = new RecordReader([{ path: oldPath, name: oldPath, size: 0 }]);
  const tally = new QualityTally();
  // With a judge they are read twice.
  const onCut = (where: string): void => {
    if (!after.cutLines.includes(where)) after.cutLines.push(where);
  };
  const pairs = async function* (): AsyncGenerator<RepliesPair> {
    const nameOf = after.requests.namer();
    for await (const stored of readReplies(join(after.directory, REPLIES_FILE), onCut)) {
      const place = places.get(nameOf(stored));
      if (!place) continue;
      const old = parsed(await reader.read(place), `${oldPath}, line ${place.line}`) as StoredReply;
      if (old.reply.cancelled || stored.reply.cancelled) continue;
      // One of which only the length is known says nothing of the other.
      if ((stored.reply.notKeptBytes ?? old.reply.notKeptBytes) !== undefined) continue;
      yield { stored, old, comparison: compareReplies(old.reply, stored.reply) };
    }
  };
  try {
    await addPairs(pairs, tally, comparison, judging);
  } finally {
    await reader.close();
  }
  comparison.quality = tally.quality;
  comparison.regressions = tally.worst();
}

async function placesOf({ directory, requests, cutLines }: RunData): Promise<Map<string, IndexEntry>> {
  const places = new Map<string, IndexEntry>();
  const nameOf = requests.namer();
  for await (const { value, line, start, length } of jsonLines(join(directory, REPLIES_FILE), (where) =>
    cutLines.push(where),
  )) {
    places.set(nameOf(value as StoredReply), { timeMs: 0, file: 0, line, start, length });
  }
  return places;
}

async function addPairs(
  pairs: () => AsyncGenerator<RepliesPair>,
  tally: QualityTally,
  comparison: RunsComparison,
  judging: JudgeSettings | undefined,
): Promise<void> {
  const rowOf = ({ stored, old: known }: RepliesPair): Omit<RegressionRow, 'regressions' | 'overlap'> => ({
    key: stored.key,
    eventId: stored.event_id,
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
    const onDone = (item: RepliesPair, verdict?: PairVerdict): void => {
      if (verdict?.verdict === 'worse') tally.addJudgedWorse(rowOf(item), item.comparison, verdict.rationales[0]);
    };
    const { failure, ...result } = await judgeMost(judging, pairs(), pairOf, onDone);
    // What it has said is kept, and that it said no more is in the result.
    if (failure) comparison.judgeFailure = failure;
    tally.quality.judged = result.judged;
    comparison.judgeUsd = result.usd;
  }
}
