/** Sums up a run from its plan and its receipts: the two equations, the money, and what failed. */

import type { RetryInput } from '../contract/input.ts';
import type { CaptureRange, ManifestLine } from '../contract/payloads.ts';
import type {
  BatchReport,
  CostEstimate,
  EvaluateReceipt,
  FailedFile,
  JudgeSpend,
  LogCounts,
  NamedError,
  PlanReceipt,
  UnreadRange,
  VerdictCounts,
} from '../contract/receipts.ts';
import { workKeys } from '../contract/work-keys.ts';
import type { Storage } from '../shared/storage.ts';
import { cacheMissedText, isCacheMissed } from './cache-missed.ts';
import { withRanges } from './chunk/ranges.ts';
import {
  addCounts,
  addEstimates,
  addSpend,
  emptyLogCounts,
  emptySpend,
  emptyVerdictCounts,
  noCounts,
  sumLogCounts,
  verdictTotal,
} from './counts.ts';
import {
  type ChunkState,
  chunkStates,
  emptyChunkState,
  partsDone,
  readManifest,
  readPlanReceipts,
  reportedTwice,
  unreportedAttempts,
} from './receipts.ts';

type RunStatus = 'succeeded' | 'failed' | 'duplicate' | 'dryRun';

/** A chunk that failed, or a range of it whose file could not be read although the others were. */
interface FailedChunk {
  chunk: number;
  step: 'log' | 'evaluate';
  /** The number of its ranges, if it has several; the place is that of the first. */
  ranges?: number;
  bucket: string;
  key: string;
  start: number;
  end: number;
  firstLine: number;
  lines: number;
  error: NamedError;
}

export interface RunSummary {
  run: string;
  status: RunStatus;
  startedAt: string;
  endedAt: string;
  input: unknown;
  options: PlanReceipt['options'] | null;
  duplicateOf?: string;
  objects: number;
  bytes: number;
  chunks: { planned: number; logged: number; evaluated: number; failed: number };
  /** `planned = traced + quarantined + outsideWindow + lost`. The run fails unless `lost` is 0. */
  lines: { planned: number; lost: number } & Omit<LogCounts, 'lines'>;
  /** `expected` is the sum of the terms. `failed` includes `failedRecorded`, which are error assessments, and `lost`, which are nowhere. */
  verdicts: { expected: number; scorers: number; failedRecorded: number; lost: number } & VerdictCounts;
  /** Traces with a verdict, a new one or an older one. A trace counts once for each chunk that contains its line. */
  evaluatedTraces: number;
  reasons: Record<string, number>;
  verdictsByScorer: Record<string, Record<string, number>>;
  quarantineReasons: Record<string, number>;
  spend: JudgeSpend;
  /**
   * Number of attempts to evaluate that left no receipt (killed, timed out, or never started); absent instead of 0. `spend`
   * includes the judge's answers that killed attempts paid for if a later attempt found them.
   */
  unreportedAttempts?: number;
  estimate?: CostEstimate;
  /** The first jobs of batch inference, how many there are if there are more, and what Converse was asked instead, and why. */
  batch?: Pick<BatchReport, 'jobs' | 'converse'> & { jobCount?: number };
  /** Warnings for a person, although the run continued, such as the end of life of the judge’s model. */
  warnings?: string[];
  /** One of the warnings is about the judge’s model. */
  judgeModelEnding?: true;
  /** The first failed chunks. The receipts have all of them. */
  failedChunks: FailedChunk[];
  /** The number of capture files that could not be planned, and the first of them. */
  failedFiles?: { count: number; first: FailedFile[] };
  /** The error that stopped planning or the Map itself. */
  error?: NamedError;
  /** Planning stopped before its last part. The rest of the input is in no chunk, and no retry knows of it. */
  partlyPlanned?: true;
  /** Whether the two equations are satisfied; `null` when there was nothing to count (a dry run, a duplicate). */
  equations: { lines: boolean | null; verdicts: boolean | null };
}

/** The most failed chunks, failed files and batch jobs that the summary lists. A person reads a few; the receipts have all of them. */
const MAX_FAILURES = 100;

/** Sums a run from what it left in the work bucket. */
export async function summarizeRun(
  storage: Storage,
  workBucket: string,
  run: { name: string; startTime: string },
  error?: NamedError,
): Promise<RunSummary> {
  const summary = new SummaryBuilder(run, error);
  for await (const plan of readPlanReceipts(storage, workBucket, run.name)) summary.addPlan(plan);
  const states = await chunkStates(storage, workBucket, run.name, (receipt) => {
    if (receipt.step === 'evaluate') summary.addSpend(receipt);
  });
  for await (const chunk of readManifest(storage, workBucket, run.name)) {
    summary.addChunk(await withRanges(storage, workBucket, chunk), states.get(chunk.chunk) ?? emptyChunkState());
  }
  summary.addBatch(await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run.name)));
  return summary.build();
}

export class SummaryBuilder {
  readonly #summary: RunSummary;
  #planComplete = false;
  /** Chunks whose batch answers are included in the spend. */
  readonly #batchPaid = new Set<number>();

  constructor(run: { name: string; startTime: string }, error?: NamedError) {
    const { lines: _, ...lines } = emptyLogCounts();
    this.#summary = {
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
      verdicts: { expected: 0, scorers: 0, ...emptyVerdictCounts(), failedRecorded: 0, lost: 0 },
      evaluatedTraces: 0,
      reasons: noCounts(),
      verdictsByScorer: Object.create(null),
      quarantineReasons: noCounts(),
      spend: emptySpend(),
      failedChunks: [],
      error,
      equations: { lines: false, verdicts: false },
    };
  }

  addPlan(plan: PlanReceipt): void {
    const summary = this.#summary;
    summary.input = plan.input;
    summary.options = plan.options;
    summary.objects += plan.objects;
    summary.bytes += plan.bytes;
    summary.chunks.planned += plan.chunks;
    summary.lines.planned += plan.lines;
    summary.verdicts.scorers = plan.scorers;
    this.#planComplete = !plan.more;
    if (plan.outcome === 'duplicate' || plan.outcome === 'dryRun') summary.status = plan.outcome;
    if (plan.duplicateOf !== undefined) summary.duplicateOf = plan.duplicateOf;
    if (plan.warnings !== undefined) summary.warnings = [...(summary.warnings ?? []), ...plan.warnings];
    if (plan.judgeModelEnding) summary.judgeModelEnding = true;
    if (plan.failedFiles !== undefined) {
      const { count = 0, first = [] } = summary.failedFiles ?? {};
      const all = [...first, ...plan.failedFiles].slice(0, MAX_FAILURES);
      summary.failedFiles = { count: count + plan.failedFiles.length, first: all };
    }
    if (plan.estimate !== undefined) summary.estimate = addEstimates(summary.estimate, plan.estimate);
  }

  /** Adds the money of an attempt. All attempts of a chunk count; the answers of a batch job were paid once, and count once. */
  addSpend({ chunk, spend, batchSpend }: EvaluateReceipt): void {
    addSpend(this.#summary.spend, spend);
    if (batchSpend === undefined || this.#batchPaid.has(chunk)) return;
    this.#batchPaid.add(chunk);
    addSpend(this.#summary.spend, batchSpend);
  }

  addBatch(report: BatchReport | undefined): void {
    if (report === undefined) return;
    const { jobs, converse } = report;
    const first = jobs.slice(0, MAX_FAILURES).map(({ files: _, ...job }) => job);
    this.#summary.batch = { jobs: first, converse, ...(jobs.length > first.length ? { jobCount: jobs.length } : {}) };
  }

  addChunk(chunk: ManifestLine, state: ChunkState): void {
    addSpend(this.#summary.spend, reportedTwice(state), -1);
    const { lines, chunks, quarantineReasons } = this.#summary;
    const { parts, whole, error } = partsDone(state.log, chunk.lines);
    if (!whole) {
      lines.lost += chunk.lines;
      chunks.failed += 1;
      this.#fail(chunk, 'log', error?.error);
      return;
    }
    chunks.logged += 1;
    const { lines: counted, ...terms } = sumLogCounts(parts);
    addCounts<keyof typeof terms>(lines, terms);
    // If a chunk counts fewer lines than planned, the difference is lost.
    lines.lost += Math.max(0, chunk.lines - counted);
    for (const part of parts) addCounts(quarantineReasons, part.quarantineReasons);
    this.#failUnread(chunk, 'log', parts);
    this.#addVerdicts(chunk, state, terms.traced);
  }

  #addVerdicts(chunk: ManifestLine, state: ChunkState, traced: number): void {
    const { verdicts, chunks, options } = this.#summary;
    const expected = traced * verdicts.scorers;
    verdicts.expected += expected;
    if (options?.evaluate === false) {
      verdicts.evaluationOff += expected;
      return;
    }
    const unreported = unreportedAttempts(state);
    if (unreported > 0) this.#summary.unreportedAttempts = (this.#summary.unreportedAttempts ?? 0) + unreported;
    const { parts, whole, error } = partsDone(state.evaluate, chunk.lines);
    // Without a success for every part, the last failed attempt counts too, and the rest of the chunk is lost.
    const counted = whole || error === undefined ? parts : [...parts, error];
    if (whole) {
      chunks.evaluated += 1;
    } else {
      chunks.failed += 1;
      this.#fail(chunk, 'evaluate', error?.error);
    }
    for (const receipt of counted) this.#addReceipt(receipt);
    this.#failUnread(chunk, 'evaluate', parts);
    const reported = counted.reduce((total, { counts }) => total + verdictTotal(counts), 0);
    const missing = Math.max(0, expected - reported);
    verdicts.failed += missing;
    verdicts.lost += missing;
  }

  #addReceipt(receipt: EvaluateReceipt): void {
    const { verdicts, verdictsByScorer, reasons } = this.#summary;
    addCounts<keyof VerdictCounts>(verdicts, receipt.counts);
    verdicts.failedRecorded += receipt.failedRecorded;
    this.#summary.evaluatedTraces += receipt.evaluatedTraces ?? 0;
    addCounts(reasons, receipt.reasons);
    for (const [scorer, values] of Object.entries(receipt.verdicts)) {
      verdictsByScorer[scorer] ??= noCounts();
      addCounts(verdictsByScorer[scorer], values);
    }
  }

  /** The lines of a range that could not be read are missing in the counts of its part, and so are lost. */
  #failUnread(chunk: ManifestLine, step: FailedChunk['step'], parts: readonly { unread?: UnreadRange[] }[]): void {
    for (const { range, lines, error } of parts.flatMap(({ unread = [] }) => unread)) {
      this.#fail({ ...chunk, lines, ranges: chunk.ranges.slice(range, range + 1) }, step, error);
    }
  }

  #fail({ chunk, lines, ranges }: ManifestLine, step: FailedChunk['step'], error: NamedError | undefined): void {
    const { failedChunks } = this.#summary;
    if (failedChunks.length >= MAX_FAILURES) return;
    const { bucket, key, start, end, firstLine } = ranges[0] as CaptureRange;
    const unknown = {
      name: 'NoReceipt',
      message: `The ${step} step left no receipt: it timed out, was killed or never started`,
    };
    const several = ranges.length > 1 ? { ranges: ranges.length } : {};
    const place = { bucket, key, start, end, firstLine, lines };
    failedChunks.push({ chunk, step, ...several, ...place, error: error ?? unknown });
  }

  build(): RunSummary {
    const summary = this.#summary;
    summary.endedAt = new Date().toISOString();
    const { lines, verdicts } = summary;
    if (!this.#planComplete && summary.chunks.planned > 0) summary.partlyPlanned = true;
    if (isCacheMissed(summary.spend)) summary.warnings = [...(summary.warnings ?? []), cacheMissedText(summary.spend)];
    if (summary.status === 'succeeded') {
      summary.equations = {
        lines: lines.planned === lines.traced + lines.quarantined + lines.outsideWindow,
        verdicts: verdicts.expected === verdictTotal(verdicts),
      };
      const isWhole = summary.equations.lines && summary.equations.verdicts && this.#planComplete;
      if (!isWhole || lines.lost > 0 || verdicts.lost > 0) summary.status = 'failed';
    } else {
      summary.equations = { lines: null, verdicts: null };
    }
    if (summary.failedFiles !== undefined || isStillHeld(summary)) summary.status = 'failed';
    if (summary.error !== undefined) summary.status = 'failed';
    return summary;
  }
}

/** Returns whether this is a retry of `held` for which the budget left no room either. */
export function isStillHeld({ input, verdicts }: RunSummary): boolean {
  const what = (input as Partial<RetryInput> | null)?.retry?.what;
  return what === 'held' && verdicts.heldByBudget > 0 && verdicts.newVerdicts === 0;
}
