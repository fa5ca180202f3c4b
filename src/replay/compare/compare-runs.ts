/** Compares two runs of the same captures: speed, failures and replies. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { PermanentError } from '../../core/errors/errors.ts';
import { compareReplies, type Regression, regressionsOf } from './compare-replies.ts';
import { type ComparedData, type NewFailures, type RepliesData, repliesData } from './compared-data.ts';
import {
  type Difference,
  metricDifferences,
  neededValues,
  STATISTICS,
  type Statistic,
  shareDifference,
} from './differences.ts';
import { FREE_SCORERS, newFailures } from './free-scorers.ts';
import { jsonLines } from './json-lines.ts';
import type { JudgingResult } from './judge-replies.ts';
import { isRegressed, type Quality, type RegressionRow, ReplyQualityTally } from './quality.ts';
import { rankedValues } from './ranked-values.ts';
import { REPLIES_FILE, type StoredReply } from './replies-file.ts';
import { RequestTable } from './request-table.ts';
import { type ComparedMetric, differingOptions, METRIC_TAGS, type RunData } from './run-data.ts';

/** `comparison.json`. */
export interface RunsComparison extends JudgingResult {
  before: RunFacts;
  after: RunFacts;
  /** Requests that both runs sent, and their outcomes. `cancelled`: on purpose, in at least one run. */
  paired: Record<'requests' | 'cancelled' | 'newlyFailing' | 'newlySucceeding' | 'onlyBefore' | 'onlyAfter', number>;
  metrics: Partial<Record<ComparedMetric, Record<Statistic, Difference>>>;
  errorRate: Difference;
  /** Comparison of the second run's replies with the first run's. Set if both runs kept their replies. */
  quality?: Quality;
  regressions: RegressionRow[];
  notes: string[];
}

export type RunFacts = ReturnType<typeof factsOf>;

/** Returns each metric with each statistic that was measured in both runs, in the order of the tables. */
export const metricRows = ({ metrics }: Pick<RunsComparison, 'metrics'>) =>
  METRIC_TAGS.flatMap((metric) => {
    const found = metrics[metric];
    return found ? STATISTICS.map((statistic) => ({ metric, statistic, difference: found[statistic] })) : [];
  });

const factsOf = ({ run, location, target, requests, failed, cancelledOnPurpose }: RunData) => ({
  run,
  directory: location,
  ...{ target, requests: requests.size, failed, cancelledOnPurpose },
});

/** Number of failed requests, and of all requests that were not canceled on purpose. */
const failuresOf = ({ requests, failed, cancelledOnPurpose }: RunData): [number, number] => [
  failed,
  requests.size - cancelledOnPurpose,
];

/** Adds the judge's verdicts on pairs of replies to the tally. */
export type Judging = (tally: ReplyQualityTally, pairs: AsyncIterable<StoredReply>) => Promise<JudgingResult>;

/**
 * Compares all metrics, outcomes and replies.
 *
 * @param judging adds the judge's verdicts on the replies that differ
 * @returns the comparison, and the values on which thresholds are decided, which no file contains
 * @throws PermanentError `NotAReplay`
 *
 * @example
 *     const { comparison, data } = await compareRuns(await readRun('before'), await readRun('after'));
 */
export async function compareRuns(before: RunData, after: RunData, judging?: Judging) {
  const comparison: RunsComparison = {
    before: factsOf(before),
    after: factsOf(after),
    paired: { requests: 0, cancelled: 0, newlyFailing: 0, newlySucceeding: 0, onlyBefore: 0, onlyAfter: 0 },
    metrics: {},
    errorRate: shareDifference(failuresOf(before), failuresOf(after)),
    regressions: [],
    notes: [],
  };
  RequestTable.seal(before.requests, after.requests);
  const { metrics, changes, rowsBefore } = compareRequests(before, after, comparison);
  const isCompared = before.hasReplies && after.hasReplies;
  const sequences = isCompared ? await compareQuality(before, after, rowsBefore, comparison, judging) : undefined;
  comparison.notes.unshift(...notesOf(before, after));
  const { requests, cancelled, newlyFailing, newlySucceeding } = comparison.paired;
  const data: ComparedData = {
    failures: [failuresOf(before), failuresOf(after)],
    pairs: { requests, known: requests - cancelled, newlyFailing, newlySucceeding, changes },
    metrics,
    ...(comparison.quality ? { replies: { ...repliesData(comparison.quality), ...sequences } } : {}),
  };
  return { comparison, data };
}

function notesOf(before: RunData, after: RunData): string[] {
  const notes: string[] = [];
  for (const { run, bottleneck, wasCancelled, cutLines } of [before, after]) {
    for (const where of cutLines) notes.push(`The last line of a file of ${run} is truncated and left out: ${where}.`);
    if (bottleneck) notes.push(`In ${run} the client was the bottleneck: ${bottleneck}.`);
    if (wasCancelled) notes.push(`${run} was stopped before it had sent everything.`);
  }
  const others = differingOptions(before.options, after.options);
  if (others.length > 0) notes.push(`The two runs had different options: ${others.join('; ')}.`);
  if (!before.hasReplies || !after.hasReplies) {
    notes.push('The replies are not compared: both runs must have kept them (replay with --compare).');
  }
  return notes;
}

/**
 * Adds pairs and metrics to the comparison. Returns the values of the metrics, which requests newly fail or succeed, and
 * the first run's row for each row of the second run.
 */
function compareRequests(before: RunData, after: RunData, comparison: RunsComparison) {
  const { paired } = comparison;
  const pairs: [number[], number[]] = [[], []];
  const changes: number[] = [];
  const rowsBefore = new Map<number, number>();
  for (const [key, was] of before.requests.entries()) {
    const is = after.requests.row(key);
    if (is === undefined) {
      paired.onlyBefore++;
      continue;
    }
    paired.requests++;
    const outcomes = [before.requests.outcome(was), after.requests.outcome(is)];
    if (outcomes.includes('cancelled')) paired.cancelled++;
    else {
      const change = Number(outcomes[1] === 'failed') - Number(outcomes[0] === 'failed');
      changes.push(change);
      if (change > 0) paired.newlyFailing++;
      if (change < 0) paired.newlySucceeding++;
    }
    pairs[0].push(was);
    pairs[1].push(is);
    rowsBefore.set(is, was);
  }
  paired.onlyAfter = after.requests.size - paired.requests;
  const metrics: ComparedData['metrics'] = {};
  for (const [i, tag] of METRIC_TAGS.entries()) {
    const values = rankedValues([before.requests, after.requests], pairs, i);
    const differences = metricDifferences(values);
    if (differences) comparison.metrics[tag] = differences;
    metrics[tag] = values;
  }
  comparison.notes.push(...pairingNotes(paired.requests, before.requests.size, after.requests.size));
  return { metrics, changes: Float64Array.from(changes), rowsBefore };
}

function pairingNotes(pairs: number, before: number, after: number): string[] {
  if (pairs === 0) return ['No request is in both runs: only their shares of failed requests are compared.'];
  const notes: string[] = [];
  if (pairs < neededValues('p50')) {
    notes.push(
      `Only ${pairs} requests are in both runs: too few to distinguish a difference of latencies from chance.`,
    );
  }
  if (pairs * 2 < Math.max(before, after)) {
    notes.push(
      `Of ${before} requests before and ${after} after, only ${pairs} are in both runs: thresholds need at least half.`,
    );
  }
  return notes;
}

/**
 * Compares the replies of both runs. The first run's reply replaces the captured reply. @returns the cases, in the
 * order of sending
 */
async function compareQuality(
  before: RunData,
  after: RunData,
  rowsBefore: ReadonlyMap<number, number>,
  comparison: RunsComparison,
  judging: Judging | undefined,
): Promise<Pick<RepliesData, 'cases' | 'newFailures'>> {
  const earlier = await earlierReplies(before);
  const tally = new ReplyQualityTally();
  // The judge needs a second pass over the file, which must not repeat the note.
  const onCut = (where: string): void => {
    if (!after.cutLines.includes(where)) after.cutLines.push(where);
  };
  const found: { row: number; regressions: Regression[]; failures: ReturnType<typeof newFailures> }[] = [];
  const pairs = async function* (onPair?: (pair: StoredReply, row: number) => void): AsyncGenerator<StoredReply> {
    for await (const { reply, row } of repliesOf(after, onCut)) {
      const was = rowsBefore.get(row);
      const pair = was === undefined ? undefined : await earlier.pair(was, reply);
      if (was === undefined || !pair) continue;
      onPair?.(pair, was);
      yield pair;
    }
  };
  const onPair = (pair: StoredReply, row: number): void => {
    if (!pair.comparison) return;
    found.push({ row, regressions: regressionsOf(pair.comparison), failures: newFailures(pair) });
  };
  try {
    for await (const pair of pairs(onPair)) tally.add(pair);
    if (judging) Object.assign(comparison, await judging(tally, pairs()));
  } finally {
    await earlier.close();
  }
  const { quality, regressions } = tally.result();
  Object.assign(comparison, { quality, regressions });
  found.sort((a, b) => before.requests.bySending(a.row, b.row));
  const byScorer = FREE_SCORERS.map(({ name }, i): [string, NewFailures] => {
    const applying = found.map(({ failures }) => failures[i]).filter((one) => one !== null);
    const known = applying.filter((one) => one !== undefined);
    return [name, { cases: Float64Array.from(known, Number), of: applying.length }];
  });
  return {
    cases: {
      regressed: Float64Array.from(found, ({ regressions }) => Number(isRegressed(regressions))),
      newRefusals: Float64Array.from(found, ({ regressions }) => Number(regressions.includes('new-refusal'))),
    },
    newFailures: Object.fromEntries(byScorer.filter(([, { of }]) => of > 0)),
  };
}

// ----------------------------------------------------------------------------------------------------- earlier replies
// The replies of an earlier run, for a comparison with the replies of a later run.

/**
 * Yields the replies of a run with the rows of their requests: both files have a line for each request, in the same order.
 *
 * @throws PermanentError `NotAReplay`
 */
async function* repliesOf({ directory, requests }: RunData, onCut: (where: string) => void) {
  const path = join(directory, REPLIES_FILE);
  let row = 0;
  for await (const { value, line, ...place } of jsonLines(path, onCut)) {
    const reply = value as StoredReply;
    if (!requests.isAt(row, reply)) {
      const facts = { got: `${reply.file}, line ${reply.line}`, where: `${path}, line ${line}` };
      throw new PermanentError('NotAReplay', 'A reply is not of the request with the same number', facts);
    }
    yield { reply, row, ...place };
    row++;
  }
}

/**
 * Finds the position of each reply of a run. Keeps only the positions in memory. Each reply is read when its pair is due,
 * because both runs have nearly the same order.
 */
async function earlierReplies(run: RunData) {
  const places: { start: number; length: number }[] = [];
  for await (const { start, length } of repliesOf(run, (where) => void run.cutLines.push(where)))
    places.push({ start, length });
  const file = await open(join(run.directory, REPLIES_FILE));
  return {
    /**
     * Returns the later reply, with the earlier reply to the same request in place of the captured reply, and the
     * comparison.
     *
     * @param row of the request in the earlier run
     * @returns `undefined` if either reply is unknown, because it was canceled or not kept
     */
    async pair(row: number, stored: StoredReply): Promise<StoredReply | undefined> {
      const place = places[row];
      if (!place) return undefined;
      const bytes = Buffer.allocUnsafe(place.length);
      await file.read(bytes, 0, place.length, place.start);
      const old = JSON.parse(bytes.toString('utf8')) as StoredReply;
      const replies = [old.reply, stored.reply] as const;
      // The content of a canceled reply is unknown. Of a reply that was not kept, only the length is known.
      if (replies.some(({ cancelled, notKeptBytes }) => cancelled || notKeptBytes !== undefined)) return undefined;
      return { ...stored, captured: old.reply, comparison: compareReplies(...replies) };
    },
    close: () => file.close(),
  };
}
