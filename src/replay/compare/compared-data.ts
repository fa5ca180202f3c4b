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
  /** 1 for each compared pair that is a case without the judge, else 0, in the order of sending. Absent: the order is unknown. */
  cases?: Record<'regressed' | 'newRefusals', Float64Array>;
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
export function repliesData({ compared, regressed, refusals, comparable, judged }: Quality): RepliesData {
  const found: RepliesData = { compared, regressed, newRefusals: refusals.new };
  if (judged) {
    const verdicts = judged.better + judged.same + judged.worse + judged.undecided;
    const { equal, differing, emptied } = comparable;
    const open = Math.max(0, differing - verdicts);
    found.judged = { pairs: equal + differing + emptied, worse: judged.worse + emptied, open };
  }
  return found;
}
