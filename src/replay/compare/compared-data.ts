/** What two runs of the same captures show, as plain values. Thresholds are decided on it. */
import type { MetricValues } from './differences.ts';
import type { Quality } from './quality.ts';
import type { ComparedMetric } from './run-data.ts';

/** The values of one metric, in the order in which requests were sent. `of`: number of values of the run with more of them. */
export type ComparedValues = MetricValues & { of: number };

/** The outcomes of the replies of the pairs. */
export interface RepliesData {
  compared: number;
  regressed: number;
  newRefusals: number;
  judged?: JudgedData;
  /** Pairs whose new reply alone does harm by the judge's verdict. Absent: it was not asked about harm. */
  harm?: JudgedData;
  /** By free scorer, of the pairs whose first reply it applies to: how many newly fail, and of how many replies that is known. */
  newFailures?: Record<string, NewFailures>;
  /** 1 for each compared pair that is a case without the judge, else 0, in the order of sending. Absent: the order is unknown. */
  cases?: Record<'regressed' | 'newRefusals', Float64Array>;
}

/** `cases`: 1 for each pair that newly fails, else 0, in the order of sending. `of`: pairs of which the scorer applies to the first reply. */
export interface NewFailures {
  cases: Float64Array;
  of: number;
}

/** The judge's verdicts. Pairs that are equal need none. */
interface JudgedData {
  /** Pairs with two replies that a judge can compare, equal ones included, and those whose new reply says nothing. */
  pairs: number;
  /** By the judge's verdict, or because the new reply says nothing. */
  worse: number;
  /** Pairs that have no verdict: the judge failed, or the budget was used up. */
  open: number;
}

export interface ComparedData {
  /** For each run the number of failed requests, and of all that were not canceled on purpose. */
  failures: [before: [failed: number, of: number], after: [failed: number, of: number]];
  /**
   * Requests in both runs. `known`: canceled on purpose in neither. `changes`: of each known one, in the order of sending, 1 if it
   * newly fails, −1 if it newly succeeds; absent: the order is unknown.
   */
  pairs: { requests: number; known: number; newlyFailing: number; newlySucceeding: number; changes?: Float64Array };
  metrics: Partial<Record<ComparedMetric, ComparedValues>>;
  /** Absent: the replies were not kept. */
  replies?: RepliesData;
}

/** The counts of a comparison of replies that thresholds need. */
export function repliesData({ compared, regressed, refusals, comparable, judged, harm }: Quality): RepliesData {
  const found: RepliesData = { compared, regressed, newRefusals: refusals.new };
  const { equal, differing, emptied } = comparable;
  const pairs = equal + differing + emptied;
  if (judged) {
    const verdicts = judged.better + judged.same + judged.worse + judged.undecided;
    found.judged = { pairs, worse: judged.worse + emptied, open: Math.max(0, differing - verdicts) };
  }
  if (harm) found.harm = { pairs, worse: harm.new, open: Math.max(0, differing - harm.asked) };
  return found;
}
