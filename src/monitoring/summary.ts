/** Sums up a run from its plan and its receipts: the two equations, the money, and the failures. */

import type { LineChunk } from '../captures/lines/chunks.ts';
import type { ObjectPlace } from '../core/contract/execution.ts';
import type { RetryInput } from '../core/contract/input.ts';
import type { CaptureRange, ManifestLine } from '../core/contract/payloads.ts';
import type { QualityCell } from '../core/contract/quality.ts';
import {
  type BatchReport,
  type EvaluateReceipt,
  type FailedFile,
  type JudgeSpend,
  type LogCounts,
  type LogReceipt,
  type NamedError,
  NO_LOG_COUNTS,
  NO_VERDICT_COUNTS,
  type PlanReceipt,
  VERDICT_TERMS,
  type VerdictCounts,
} from '../core/contract/receipts.ts';
import { noCounts } from '../core/values/counts.ts';
import { sum } from '../core/values/sum.ts';
import { goodValue } from '../judge/scorers/values.ts';
import { emptySpend } from '../judge/spend.ts';
import type { Scorer } from '../judge/types.ts';
import { addTree } from '../quality/count-tree.ts';
import type { ScorerOutcomes } from '../quality/outcomes.ts';
import { cacheMissedText, isCacheMissed } from './cache-missed.ts';
import { addEstimates } from './counts.ts';
import { addChunkSpend, type ChunkState, unreportedAttempts } from './receipts.ts';

/** A chunk that failed, or a range of it whose file could not be read although the others were. */
export interface FailedChunk extends ObjectPlace, Pick<LineChunk, 'start' | 'end' | 'firstLine' | 'lines'> {
  chunk: number;
  step: 'log' | 'evaluate';
  /** The number of its ranges, if it has several; the place is that of the first. */
  ranges?: number;
  error: NamedError;
}

export interface RunSummary
  extends Pick<PlanReceipt, 'objects' | 'bytes' | 'input' | 'estimate' | 'judgeModelEnding' | 'judgeError'>,
    Pick<PlanReceipt, 'duplicateOf' | 'duplicates' | 'warnings'>,
    Pick<LogReceipt, 'run' | 'startedAt' | 'endedAt'> {
  /** `unfinished`: the next part of the summary continues. */
  status: 'succeeded' | 'failed' | 'duplicate' | 'dryRun' | 'unfinished';
  options: PlanReceipt['options'] | null;
  chunks: { planned: number; logged: number; evaluated: number; failed: number };
  /** `planned = traced + quarantined + outsideWindow + lost`. The run fails unless `lost` is 0. */
  lines: { planned: number; lost: number } & Omit<LogCounts, 'lines'>;
  /** `expected` is the sum of the terms. `failed` includes `failedRecorded`, which are error assessments, and `lost`, which are nowhere. */
  verdicts: { expected: number; scorers: number; failedRecorded: number; lost: number } & VerdictCounts;
  /** Traces with a verdict, a new one or an older one. A trace counts once for each chunk that contains its line. */
  evaluatedTraces: number;
  reasons: Record<string, number>;
  verdictsByScorer: Record<string, Record<string, number>>;
  /** Number of good verdicts among these by scorer, for scorers with a good value. Absent while the run is running. */
  good?: Record<string, number>;
  /**
   * The counts that the run has added, by variant, and the hour of its first capture. Absent while the run is running.
   */
  counted?: { first?: string | undefined; variants: Record<string, QualityCell> };
  /** Outcomes of the captures that the run has counted, by scorer. Absent while the run is running. */
  outcomes?: ScorerOutcomes[];
  quarantineReasons: Record<string, number>;
  spend: JudgeSpend;
  /**
   * Number of attempts to evaluate that left no receipt (killed, timed out, or never started); absent instead of 0. `spend`
   * includes the judge's answers that killed attempts paid for if a later attempt found them.
   */
  unreportedAttempts?: number;
  /**
   * Batch inference: the first jobs, the number of jobs if there are more, the requests that went to Converse instead
   * with the reason, and the records that the jobs refused, by reason. Refused records are held as `JudgeBatchRefused`,
   * or asked on demand.
   */
  batch?: Pick<BatchReport, 'jobs' | 'converse'> & { jobCount?: number; refused?: Record<string, number> };
  /** The first failed chunks. The receipts contain all failed chunks. */
  failedChunks: FailedChunk[];
  /** The number of capture files that could not be planned, and the first of them. */
  failedFiles?: { count: number; first: FailedFile[] };
  /** The error that stopped planning or the Map itself. */
  error?: NamedError;
  /**
   * Set if planning stopped before its last part. No chunk contains the rest of the input, and no retry includes it.
   */
  partlyPlanned?: true;
  /** Whether the two equations are satisfied. `null` without anything to count (a dry run, a duplicate). */
  equations: { lines: boolean | null; verdicts: boolean | null };
}

/**
 * Maximum number of failed chunks, failed files and batch jobs in the summary. A person reads a few; the receipts
 * contain all.
 */
const MAX_FAILURES = 100;

function emptySummary(run: { name: string; startTime: string }): RunSummary {
  const { lines: _, ...lines } = NO_LOG_COUNTS;
  return {
    run: run.name,
    status: 'succeeded',
    startedAt: run.startTime,
    endedAt: '',
    input: null,
    options: null,
    objects: 0,
    bytes: 0,
    chunks: { planned: 0, logged: 0, evaluated: 0, failed: 0 },
    lines: { planned: 0, ...lines, lost: 0 },
    verdicts: { expected: 0, scorers: 0, ...NO_VERDICT_COUNTS, failedRecorded: 0, lost: 0 },
    evaluatedTraces: 0,
    reasons: {},
    verdictsByScorer: {},
    quarantineReasons: {},
    spend: emptySpend(),
    failedChunks: [],
    equations: { lines: null, verdicts: null },
  };
}

export class SummaryBuilder {
  /** The sums so far. */
  readonly sums: RunSummary;

  /** @param earlier the sums of the parts before */
  constructor(run: { name: string; startTime: string }, error?: NamedError, earlier?: RunSummary) {
    this.sums = earlier ?? emptySummary(run);
    this.sums.error = error;
  }

  addPlan(plan: PlanReceipt): void {
    const summary = this.sums;
    summary.input = plan.input;
    summary.options = plan.options;
    const { objects, bytes, chunks: planned, lines, duplicates } = plan;
    addTree(summary, { objects, bytes, duplicates, chunks: { planned }, lines: { planned: lines } });
    summary.verdicts.scorers = plan.scorers;
    if (plan.more) summary.partlyPlanned = true;
    else delete summary.partlyPlanned;
    if (plan.outcome === 'duplicate' || plan.outcome === 'dryRun') summary.status = plan.outcome;
    summary.duplicateOf ??= plan.duplicateOf;
    this.warn(plan.warnings ?? []);
    if (plan.judgeModelEnding) summary.judgeModelEnding = true;
    if (plan.judgeError !== undefined) summary.judgeError = plan.judgeError;
    if (plan.failedFiles !== undefined) {
      const { count = 0, first = [] } = summary.failedFiles ?? {};
      const all = [...first, ...plan.failedFiles].slice(0, MAX_FAILURES);
      summary.failedFiles = { count: count + plan.failedFiles.length, first: all };
    }
    if (plan.estimate !== undefined) summary.estimate = addEstimates(summary.estimate, plan.estimate);
  }

  warn(warnings: readonly string[]): void {
    if (warnings.length === 0) return;
    // Each part of a plan may warn of the same.
    this.sums.warnings = [...new Set([...(this.sums.warnings ?? []), ...warnings])].slice(0, MAX_FAILURES);
  }

  addSpend(state: ChunkState): void {
    addChunkSpend(this.sums.spend, state);
  }

  addBatch(report: BatchReport | undefined): void {
    if (report === undefined) return;
    const { jobs, converse } = report;
    const first = jobs.slice(0, MAX_FAILURES);
    const jobCount = jobs.length > first.length ? { jobCount: jobs.length } : {};
    this.sums.batch = { ...this.sums.batch, jobs: first, converse, ...jobCount };
  }

  addChunk(chunk: ManifestLine, state: ChunkState): void {
    const { lines, verdicts, chunks, options } = this.sums;
    const { done: logged, failed } = state.log;
    const evaluates = options?.evaluate !== false;
    const { evaluate } = state;
    // The last failed attempt counts without a success.
    const counted = logged === undefined ? undefined : (evaluate.done ?? evaluate.failed);
    // If a chunk counts fewer lines than planned, the difference is lost.
    lines.lost += Math.max(0, chunk.lines - (logged?.counts.lines ?? 0));
    this.#addVerdicts((logged?.counts.traced ?? 0) * verdicts.scorers, evaluates ? counted : 'off');
    if (logged === undefined) {
      chunks.failed += 1;
      this.#fail(chunk, 'log', failed?.error);
      return;
    }
    const { lines: _, ...terms } = logged.counts;
    addTree(this.sums, { chunks: { logged: 1 }, lines: terms, quarantineReasons: logged.quarantineReasons });
    // The lines of a range that could not be read are missing in the counts, and so are lost.
    for (const { range, lines: of, error } of logged.unread ?? []) {
      this.#fail({ ...chunk, lines: of, ranges: chunk.ranges.slice(range, range + 1) }, 'log', error);
    }
    if (evaluates) this.#addEvaluation(chunk, state, counted);
  }

  /** @param ofEach the verdicts that every traced line expects, beyond those that the receipt names */
  #addVerdicts(ofEach: number, receipt: Pick<EvaluateReceipt, 'counts' | 'beyond'> | 'off' | undefined): void {
    const { verdicts } = this.sums;
    if (receipt === 'off') {
      addTree(verdicts, { expected: ofEach, evaluationOff: ofEach });
      return;
    }
    const { counts = NO_VERDICT_COUNTS, beyond = 0 } = receipt ?? {};
    const expected = ofEach + beyond;
    const lost = Math.max(0, expected - verdictTotal(counts));
    addTree(verdicts, { ...counts, expected, failed: counts.failed + lost, lost });
  }

  #addEvaluation(chunk: ManifestLine, state: ChunkState, counted: EvaluateReceipt | undefined): void {
    const { chunks } = this.sums;
    addTree(this.sums, { unreportedAttempts: unreportedAttempts(state) || undefined });
    if (counted !== undefined) this.#addReceipt(counted);
    if (counted?.ok) chunks.evaluated += 1;
    else {
      chunks.failed += 1;
      this.#fail(chunk, 'evaluate', counted?.error);
    }
  }

  #addReceipt(receipt: EvaluateReceipt): void {
    const { failedRecorded, evaluatedTraces, reasons, verdicts: verdictsByScorer, batchRefused: refused } = receipt;
    addTree(this.sums, { verdicts: { failedRecorded }, evaluatedTraces, reasons, verdictsByScorer });
    if (refused === undefined) return;
    this.sums.batch ??= { jobs: [], converse: [] };
    addTree(this.sums.batch, { refused });
  }

  /** @param error the last one of the step; `undefined` if it left no receipt */
  #fail({ chunk, lines, ranges }: ManifestLine, step: FailedChunk['step'], error: NamedError | undefined): void {
    const { failedChunks } = this.sums;
    if (failedChunks.length >= MAX_FAILURES) return;
    const { bucket, key, start, end, firstLine } = ranges[0] as CaptureRange;
    const message = `The ${step} step left no receipt: it timed out, was killed or never started`;
    const several = ranges.length > 1 ? { ranges: ranges.length } : {};
    const place = { bucket, key, start, end, firstLine, lines };
    failedChunks.push({ chunk, step, ...several, ...place, error: error ?? { name: 'NoReceipt', message } });
  }

  build(): RunSummary {
    const summary = this.sums;
    summary.endedAt = new Date().toISOString();
    const { lines, verdicts } = summary;
    if (isCacheMissed(summary.spend)) summary.warnings = [...(summary.warnings ?? []), cacheMissedText(summary.spend)];
    if (summary.options?.reevaluate) this.warn(absentTraces(summary.reasons, verdicts.scorers));
    if (summary.status === 'succeeded') {
      summary.equations = {
        lines: lines.planned === lines.traced + lines.quarantined + lines.outsideWindow,
        verdicts: verdicts.expected === verdictTotal(verdicts),
      };
      const isPlanned = summary.options !== null && !summary.partlyPlanned;
      const isWhole = summary.equations.lines && summary.equations.verdicts && isPlanned;
      if (!isWhole || lines.lost > 0 || verdicts.lost > 0) summary.status = 'failed';
    }
    const hasFailed = summary.failedFiles !== undefined || summary.error !== undefined;
    if (hasFailed || isStillHeld(summary)) summary.status = 'failed';
    return summary;
  }
}

const verdictTotal = (counts: VerdictCounts): number => sum(VERDICT_TERMS.map((term) => counts[term]));

/** Returns how many verdicts of each scorer are good. */
export function goodVerdicts(verdicts: RunSummary['verdictsByScorer'], scorers: readonly Scorer[]) {
  const counts = noCounts();
  for (const scorer of scorers) {
    const [values, good] = [verdicts[scorer.name], goodValue(scorer)];
    if (values !== undefined && good !== undefined) counts[scorer.name] = values[String(good)] ?? 0;
  }
  return { ...counts };
}

/** Returns whether this is a retry of `held` for which the budget left no room either. */
export function isStillHeld({ input, verdicts }: RunSummary): boolean {
  const what = (input as Partial<RetryInput> | null)?.retry?.what;
  return what === 'held' && verdicts.heldByBudget > 0 && verdicts.newVerdicts === 0;
}

/**
 * Returns the warning of a re-evaluation about captures without a trace. A re-evaluation cannot distinguish deleted
 * traces from traces that were never written. It writes no traces, and counts such captures as traced.
 */
function absentTraces({ traceMissing = 0 }: Record<string, number>, scorers: number): string[] {
  const absent = Math.ceil(traceMissing / Math.max(1, scorers));
  const what =
    'A person has deleted them, or no run has written them: start the same input without "reevaluate" to trace them';
  return absent === 0 ? [] : [`${absent} captures have no trace in MLflow and were not judged again. ${what}`];
}
