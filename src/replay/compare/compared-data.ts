/** The differences between two runs of the same captures, as plain values. Thresholds are decided on them. */
import { sum } from '../../core/values/sum.ts';
import type { MetricValues } from './differences.ts';
import type { Quality } from './quality.ts';
import type { ComparedMetric } from './run-data.ts';

/**
 * The values of one metric, in the order in which requests were sent. `of`: the larger of the two runs' numbers of
 * values.
 */
export type ComparedValues = MetricValues & { of: number };

/** The outcomes of the replies of the pairs. */
export interface RepliesData {
  compared: number;
  regressed: number;
  newRefusals: number;
  judged?: JudgedData;
  /**
   * Pairs in which only the new reply does harm, according to the judge. Absent if the judge was not asked about harm.
   */
  harm?: JudgedData;
  /**
   * For each free scorer: how many of the pairs whose first reply it applies to newly fail, and for how many replies
   * the outcome is known.
   */
  newFailures?: Record<string, NewFailures>;
  /** 1 for each compared pair that is a case without the judge, else 0, in the order of sending. Absent: the order is unknown. */
  cases?: Record<'regressed' | 'newRefusals', Float64Array>;
}

/** `cases`: 1 for each pair that newly fails, else 0, in the order of sending. `of`: pairs of which the scorer applies to the first reply. */
export interface NewFailures {
  cases: Float64Array;
  of: number;
}

/** The judge's verdicts. Equal pairs need no verdict. */
interface JudgedData {
  /** Pairs with two replies that a judge can compare, including equal replies, and pairs whose new reply is empty. */
  pairs: number;
  /** Worse by the judge's verdict, or because the new reply is empty. */
  worse: number;
  /** Pairs that have no verdict: the judge failed, or the budget was used up. */
  open: number;
}

export interface ComparedData {
  /** For each run, the number of failed requests, and of all requests that were not canceled on purpose. */
  failures: [before: [failed: number, of: number], after: [failed: number, of: number]];
  /**
   * Requests in both runs. `known`: number that neither run canceled on purpose. `changes`: for each of these, in the
   * order of sending, 1 if it newly fails and −1 if it newly succeeds; absent if the order is unknown.
   */
  pairs: { requests: number; known: number; newlyFailing: number; newlySucceeding: number; changes?: Float64Array };
  metrics: Partial<Record<ComparedMetric, ComparedValues>>;
  /** Absent: the replies were not kept. */
  replies?: RepliesData;
  /** The data of each pair of runs, if there are several. */
  runs?: readonly ComparedData[];
}

/** Adds up objects of numbers, sequences, and objects of these. Leaves out keys that any of the objects lacks. */
function added<T extends object>(all: readonly T[]): T {
  const isInAll = ([key]: [string, unknown]): boolean => all.every((one) => one[key as keyof T] !== undefined);
  const entries = Object.entries(all[0] ?? {}).filter(isInAll);
  return Object.fromEntries(
    entries.map(([key, value]) => {
      const values = all.map((one) => one[key as keyof T]) as unknown[];
      if (typeof value === 'number') return [key, sum(values as number[])];
      if (!(value instanceof Float64Array)) return [key, added(values as object[])];
      return [key, Float64Array.from((values as Float64Array[]).flatMap((array) => [...array]))];
    }),
  ) as T;
}

/**
 * Joins the data of several pairs of runs. Their metrics stay separate in `runs`: in a single sequence, the different
 * levels of the runs would look like correlation between neighbours.
 */
export function joinedRuns(runs: readonly ComparedData[]): ComparedData {
  const [first, ...others] = runs;
  if (!first || others.length === 0) return first as ComparedData;
  const failures = [0, 1].map((side) => [0, 1].map((i) => sum(runs.map((run) => run.failures[side]?.[i] ?? 0))));
  const replies = runs.flatMap((run) => run.replies ?? []);
  return {
    failures: failures as ComparedData['failures'],
    pairs: added(runs.map((run) => run.pairs)),
    metrics: {},
    ...(replies.length === runs.length ? { replies: added(replies) } : {}),
    runs,
  };
}

/** The counts of a comparison of replies that thresholds need. */
export function repliesData({ compared, regressed, regressions, comparable, judged, harm }: Quality): RepliesData {
  const found: RepliesData = { compared, regressed, newRefusals: regressions['new-refusal'] };
  const { equal, differing, emptied } = comparable;
  const pairs = equal + differing + emptied;
  if (judged) {
    const verdicts = judged.better + judged.same + judged.worse + judged.undecided;
    found.judged = { pairs, worse: judged.worse + emptied, open: Math.max(0, differing - verdicts) };
  }
  if (harm) found.harm = { pairs, worse: harm.new, open: Math.max(0, differing - harm.asked) };
  return found;
}
