/** What a release gate decides, as `comparison.json` has it. */

/** `cannot-tell`: the requests were too few, or did not show what the threshold asks about. */
export type GateOutcome = 'passed' | 'failed' | 'cannot-tell';

/** Unit of how much worse. `%`: percent of the value before, or of the pairs; `points`: percentage points. */
export type GateUnit = '%' | 'points' | 'ms' | 'tokens/s' | 'tokens';

export interface ThresholdResult {
  /** As it was written, such as `request_latency:p95:10%`. */
  threshold: string;
  outcome: GateOutcome;
  /** How much worse the second run is, in `unit`; negative: it is better. `null`: unknown. */
  worse: number | null;
  /** End of the one-sided 95% interval: at least this much worse. `null`: unknown. */
  lower: number | null;
  /** At most this much worse. `null`: unknown. */
  upper: number | null;
  /** The most that is allowed. */
  bound: number;
  unit: GateUnit;
  /** Pairs of requests that the threshold stands on, out of how many. */
  seen: number;
  of: number;
  /** Pairs that a judge was to compare and gave no verdict on. Only set for thresholds that count its verdicts. */
  open?: number;
  /** `false`: the gate added it, and has too few pairs to decide it. It does not change the outcome. */
  counts?: false;
  /** Why it was decided so, in one sentence. `moreRequests` is not in it. */
  reason: string;
  /**
   * Further requests that would probably decide it (80%), if the truth is what was seen. `null`: no reasonable number would.
   * Absent once it is decided.
   */
  moreRequests?: number | null;
}

/** The exit codes of a gate: passed, failed, cannot tell. */
export const GATE_EXIT_CODES = { passed: 0, failed: 1, 'cannot-tell': 3 } as const satisfies Record<
  GateOutcome,
  number
>;

/** A free scorer without a threshold: the share of the pairs whose new reply alone fails it, in percent. */
export interface Observed extends Pick<ThresholdResult, 'worse' | 'lower' | 'upper' | 'seen' | 'of'> {
  scorer: string;
  newlyFailing: number;
}

/** Whether a judge has read what the replies say. `judged in part`: some pairs have no verdict. */
export type ContentJudged = 'judged' | 'judged in part' | 'not judged';

export interface GateResult {
  /** Failed if a threshold failed; passed if all passed. */
  outcome: GateOutcome;
  exitCode: (typeof GATE_EXIT_CODES)[GateOutcome];
  thresholds: ThresholdResult[];
  /** Of each model. */
  runs: number;
  observed: Observed[];
  content: ContentJudged;
}
