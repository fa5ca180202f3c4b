/** The records that a run writes to the work bucket: receipts, plans, quarantined lines and the report on its batch jobs. */
import type { ObjectVersion } from './execution.ts';
import type { RunOptions } from './input.ts';
import type { ManifestLine, PlanResult } from './payloads.ts';
import type { ObservedSeries, QualityCounts, QualityFailures } from './quality.ts';

export interface NamedError {
  name: string;
  message: string;
}

/** The fields that the receipts of both steps have in common. */
interface AttemptFacts {
  run: string;
  chunk: number;
  /** How often the function had been killed while it processed the chunk. Absent instead of 0. */
  kills?: number;
  attempt: number;
  requestId: string;
  startedAt: string;
  endedAt: string;
  ok: boolean;
  error?: NamedError;
  /** Counts of the run's work on the captures of the chunk in all attempts so far, as seen by this attempt. */
  quality?: QualityCounts;
  /** Observations of the objectives in recent captures, also in all attempts. */
  series?: ObservedSeries;
  /** A few of the captures that failed an objective. */
  failures?: QualityFailures;
}

/**
 * A range whose file was deleted, overwritten or archived after it was planned. Only the lines of this range are lost.
 */
export interface UnreadRange {
  /** Ordinal of the range in the chunk, from 0. */
  range: number;
  /** Its non-blank lines. */
  lines: number;
  error: NamedError;
}

/** The terms of the first equation, as an attempt at a chunk counts them. */
export const NO_LOG_COUNTS = {
  /** Non-blank lines read. Always `traced + quarantined + outsideWindow`. */
  lines: 0,
  /** Lines with a trace in MLflow: `written + alreadyThere + duplicateLine`. */
  traced: 0,
  written: 0,
  alreadyThere: 0,
  /** Lines identical to an earlier line of the same chunk; they share its trace. */
  duplicateLine: 0,
  quarantined: 0,
  outsideWindow: 0,
};
export type LogCounts = typeof NO_LOG_COUNTS;

export interface LogReceipt extends AttemptFacts {
  step: 'log';
  counts: LogCounts;
  /** Quarantined lines by the reason's name. */
  quarantineReasons: Record<string, number>;
  /** Captures whose trace could not be built, or was refused by MLflow. Absent instead of 0. */
  refused?: number;
  /** Ranges of a chunk with several that could not be read, although the attempt succeeded with the others. */
  unread?: UnreadRange[];
}

/** The terms of the second equation: new verdicts, and the reasons for traces without a verdict of a scorer. */
export const NO_VERDICT_COUNTS = {
  newVerdicts: 0,
  alreadyThere: 0,
  duplicateLine: 0,
  evaluationOff: 0,
  notSampled: 0,
  notJudgeable: 0,
  heldByBudget: 0,
  /** Part of these are error assessments in MLflow (`failedRecorded`). The others are recorded nowhere. */
  failed: 0,
};
export type VerdictCounts = typeof NO_VERDICT_COUNTS;
export const VERDICT_TERMS = Object.keys(NO_VERDICT_COUNTS) as (keyof VerdictCounts)[];

export interface JudgeSpend {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  /** US dollars; `null` if the judge's price is unknown. */
  usd: number | null;
  /** Calls that asked for their prefix to be cached. Absent instead of 0, as the next two. */
  cacheCalls?: number;
  /** The part of `inputTokens` that was read from the prompt cache. */
  cacheReadTokens?: number;
  /** The part of `inputTokens` that was written to the prompt cache. */
  cacheWriteTokens?: number;
}

export interface EvaluateReceipt extends AttemptFacts {
  step: 'evaluate';
  /** Number of scorers that every capture is asked about: times the lines that have a trace, with `beyond`, the sum of `counts`. */
  scorers: number;
  /** Distinct traces with a verdict after this attempt, new or existing. */
  evaluatedTraces: number;
  counts: VerdictCounts;
  /** Further questions about captures, such as times, in scorers × captures. Absent instead of 0. */
  beyond?: number;
  /** Part of `counts.failed` that is recorded in MLflow as error assessments. */
  failedRecorded: number;
  /**
   * `notJudgeable` and `notSampled` by reason, for example `errorReply`, `noResponse`, `traceMissing`; and the parts of `heldByBudget` for
   * which the judge's provider, and not the budget, had no room (`providerDay`), or that a batch job refused (`JudgeBatchRefused`).
   */
  reasons: Record<string, number>;
  /** New verdicts by scorer and value, for the summary: `{safety: {yes: 12, no: 1}}`. Numbers are added up as `count`, `sum`. */
  verdicts: Record<string, Record<string, number>>;
  /** Spend of this attempt. */
  spend: JudgeSpend;
  /**
   * Payments by each other attempt at the chunk, by request id, if answers are kept. Includes attempts without a
   * receipt.
   */
  paidByOthers?: Record<string, JudgeSpend>;
  /** The outcomes of the lines. It may have succeeded although the judge failed. */
  log: LogReceipt;
  /** Cost of the chunk's answers from a batch job. Every attempt that read them reports the same sum; it is paid once. */
  batchSpend?: JudgeSpend;
  /** Records of the chunk without an answer of the batch job, by reason: asked on demand, or held. */
  batchRefused?: Record<string, number>;
}

/** The report of one attempt at a chunk. */
export type Receipt = LogReceipt | EvaluateReceipt;

/** A capture file that could not be planned, and why. It fails the run; the other files are still processed. */
export interface FailedFile extends ObjectVersion {
  error: NamedError;
}

/** The report of PlanCaptures to SummarizeRun, one object per part. */
export interface PlanReceipt extends Pick<PlanResult, 'part' | 'outcome' | 'options' | 'more'> {
  /** The contract that the part was planned under; see contract.ts. */
  contract: number;
  /**
   * A running execution that processes files of this execution. If `outcome` is `duplicate`, this execution has no
   * other files.
   */
  duplicateOf?: string;
  /** Listed files that another running execution processes with the same options, or that the list has twice. */
  duplicates?: number;
  /** Objects examined in this part. */
  objects: number;
  chunks: number;
  /** Non-blank lines planned. */
  lines: number;
  bytes: number;
  scorers: number;
  /** The next part continues after it. Absent if the input is exhausted. */
  cursor?: string;
  /** Key of the manifest in the work bucket. Absent if there are no chunks, or one in all. */
  manifest?: string;
  /** The only chunk of the run. */
  chunk?: ManifestLine;
  /** Experiment of the first chunk. */
  experimentId?: string;
  input: unknown;
  estimate?: CostEstimate;
  /** Notices for a person that do not stop the run, for example that the judge's model will be retired soon. */
  warnings?: string[];
  /** Set if one of the warnings announces the end of the judge's model. */
  judgeModelEnding?: true;
  /** Reason why the judge cannot give verdicts. The run then only writes traces, and fails if verdicts are missing. */
  judgeError?: NamedError;
  failedFiles?: FailedFile[];
}

/** The forecast of the judge's cost: from every capture in a dry run, from the sizes of the planned files in a run. */
export interface CostEstimate extends Pick<JudgeSpend, 'inputTokens' | 'outputTokens' | 'usd'> {
  captures: number;
  judgedCaptures: number;
  judgeCalls: number;
  model: string;
  /** Minimum and maximum cost. Set while too few answers of the judge are known. */
  usdRange?: [number, number];
  /** Explains in one sentence how the figures were derived. */
  basis: string;
}

/** The state of a run's batch inference, and its result; the latter is part of the summary. */
export interface BatchReport {
  jobs: {
    arn: string;
    group: number;
    records: number;
    /** The records that Bedrock refused; absent until it counts them. */
    errors?: number;
    status: string;
    message?: string | undefined;
  }[];
  /** Requests that were made by Converse instead, and why. */
  converse: { group: number; records: number; reason: string }[];
  /** Time at which the jobs were first started; ISO 8601. */
  startedAt?: string;
}

/** One line of a quarantine object: a capture line that cannot become a trace, its location and the reason. */
export interface QuarantineEntry extends ObjectVersion {
  line: number;
  start: number;
  end: number;
  /** `words` are MLflow's own, which can quote the line. */
  reason: NamedError & { words?: string };
  /** The line's bytes, base64. Absent if the line is over the size bound and only its place is kept. */
  base64?: string;
  quarantinedAt: string;
  /** Needed to retry the line, as are the next two. */
  experimentId: string;
  objectTimeMs: number;
  options: RunOptions;
}
