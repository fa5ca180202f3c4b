/** The decision of a release gate, as in `comparison.json`. */

/** `cannot-tell`: the requests were too few, or did not show the quantity that the threshold limits. */
export type GateOutcome = 'passed' | 'failed' | 'cannot-tell';

/** Unit of how much worse. `%`: percent of the value before, or of the pairs; `points`: percentage points. */
export type GateUnit = '%' | 'points' | 'ms' | 'tokens/s' | 'tokens';

export interface ThresholdResult {
  /** The threshold as the user wrote it, such as `request_latency:p95:10%`. */
  threshold: string;
  outcome: GateOutcome;
  /** How much worse the second run is, in `unit`. Negative if it is better, `null` if unknown. */
  worse: number | null;
  /** Lower end of the one-sided 95% interval: the second run is at least this much worse. `null` if unknown. */
  lower: number | null;
  /** Upper end: the second run is at most this much worse. `null` if unknown. */
  upper: number | null;
  /** The allowed maximum. */
  bound: number;
  unit: GateUnit;
  /** Number of request pairs on which the decision is based. `of`: their total number. */
  seen: number;
  of: number;
  /** Pairs that a judge was to compare and gave no verdict on. Only set for thresholds that count its verdicts. */
  open?: number;
  /** `false`: the gate added it, and has too few pairs to decide it. It does not change the outcome. */
  counts?: false;
  /** Reason for the outcome, in one sentence without `moreRequests`. */
  reason: string;
  /**
   * Number of further requests that would probably (80%) decide it, if the observed effect is true. `null` if no
   * reasonable number suffices. Absent if it is decided.
   */
  moreRequests?: number | null;
}

/** The exit codes of a gate: passed, failed, cannot tell. */
export const GATE_EXIT_CODES = { passed: 0, failed: 1, 'cannot-tell': 3 } as const satisfies Record<
  GateOutcome,
  number
>;

/**
 * The result of a free scorer without a threshold: the share of pairs in which only the new reply fails it, in percent.
 */
export interface Observed extends Pick<ThresholdResult, 'worse' | 'lower' | 'upper' | 'seen' | 'of'> {
  scorer: string;
  newlyFailing: number;
}

/** Whether a judge has read the content of the replies. `judged in part`: some pairs have no verdict. */
export type ContentJudged = 'judged' | 'judged in part' | 'not judged';

export interface GateResult {
  /** Failed if a threshold failed; passed if all passed. */
  outcome: GateOutcome;
  exitCode: (typeof GATE_EXIT_CODES)[GateOutcome];
  thresholds: ThresholdResult[];
  /** Number of runs of each model. */
  runs: number;
  observed: Observed[];
  content: ContentJudged;
}
