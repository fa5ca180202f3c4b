/** What `inspect` and `judge` print as JSON: the reports about capture files, which need no stack. */
import type { TraceRecord } from '../../src/captures/trace/types.ts';
import type { CostEstimate, JudgeSpend, NamedError } from '../../src/core/contract/receipts.ts';
import type { Share } from '../../src/core/statistics/share.ts';
import type { AssessmentValue } from '../../src/mlflow/types.ts';

export interface Place {
  file: string;
  /** Physical line number, from 1. */
  line: number;
}

/** Files that cannot be read, or not to their end. */
type Unreadable = { file: string; message: string }[];

export interface InspectReport {
  files: number;
  /** Files that are compressed, or named *.gz, which the stack does not read. */
  gzip: number;
  /** On the disk. */
  bytes: number;
  /** Lines that are not blank: captures, duplicates and quarantined ones. */
  lines: number;
  /** Different captures: those that would be traced. */
  captures: number;
  duplicates: number;
  /** By reason, with the first lines and what is wrong with each. */
  quarantined: { name: string; count: number; at: (Place & { message: string })[] }[];
  unreadable: Unreadable;
  /** Captured times, ISO 8601. */
  times?: { first: string; last: string };
  formats: { format: string; wireFormat?: string; captures: number; streamed: number; errorReplies: number }[];
  /** Captures by the model that they name. */
  models: Record<string, number>;
  /** Captures whose endpoint reported tokens, and their sums. */
  usage: { captures: number; inputTokens: number; outputTokens: number };
  /** With the first places. */
  notes: { note: string; count: number; at: Place[] }[];
  /** By scorer, the captures that it applies to, and the others by the reason. */
  scorers: { name: string; kind: 'judge' | 'code'; captures: number; not: Record<string, number> }[];
  cost: CostEstimate;
}

export interface LineReport extends Place {
  quarantined?: NamedError;
  /** As it is written to MLflow, without the ids, which depend on the experiment. */
  trace?: Omit<TraceRecord, 'traceId' | 'encoded'>;
  format?: string;
  wireFormat?: string;
  notes?: string[];
  /** By name: `null`, or why the scorer does not apply. */
  scorers?: Record<string, string | null>;
  /** Expected for the judge; `null` if its price is unknown. */
  judgeUsd?: number | null;
}

interface VerdictRow extends Place {
  scorer: string;
  value?: AssessmentValue;
  /** Absent if no value of the scorer is a failure, and for an error. */
  passes?: boolean;
  rationale?: string;
  error?: { code: string; message: string };
  /** `null` if the price is unknown. */
  usd: number | null;
  /** The beginning of what was asked and of the reply. */
  request: string;
  reply: string;
}

interface ScorerSum {
  name: string;
  kind: 'judge' | 'code';
  verdicts: number;
  /** The share that passes with its 95% interval; `null` without verdicts, or if no value is a failure. */
  passes: Share | null;
  /** Verdicts by value, for the first values. Numbers have their mean and extremes instead. */
  values: Record<string, number>;
  numbers?: { mean: number; min: number; max: number };
  /** Captures that the scorer applies to and that have no verdict of it. */
  missing: number;
  /** `null` if the price is unknown. */
  usd: number | null;
}

export interface JudgeReport {
  /** The id of the judge; absent if only code scorers ran. */
  judge?: string;
  captures: number;
  verdicts: VerdictRow[];
  scorers: ScorerSum[];
  /** Verdicts that are missing, by reason: an error of the judge, `held` by the budget, `notAsked` after a failure. */
  missing: Record<string, number>;
  /** Scorers that do not apply to a capture, by reason, over all captures. */
  notJudgeable: Record<string, number>;
  spend: Pick<JudgeSpend, 'calls' | 'inputTokens' | 'outputTokens' | 'usd'>;
  unreadable: Unreadable;
  thresholds: { scorer: string; atLeast: number; holds: boolean }[];
  /** What ended the judging early. */
  failure?: NamedError;
}
