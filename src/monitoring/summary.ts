/** Adds up a run from its plan and its receipts: the two equations, the money, and what failed. */

import type { RetryInput } from '../contract/input.ts';
import type { ManifestLine } from '../contract/payloads.ts';
import {
  type BatchReport,
  type CostEstimate,
  type EvaluateReceipt,
  type FailedFile,
  type JudgeSpend,
  type LogCounts,
  type NamedError,
  type PlanReceipt,
  VERDICT_TERMS,
  type VerdictCounts,
} from '../contract/receipts.ts';
import { workKeys } from '../contract/work-keys.ts';
import type { Storage } from '../shared/storage.ts';
import {
  addSpend,
  type ChunkState,
  chunkStates,
  emptyChunkState,
  emptySpend,
  emptyVerdictCounts,
  partsDone,
  readManifest,
  readPlanReceipts,
  sumLogCounts,
  toldTwice,
  unreportedAttempts,
  verdictTotal,
} from './receipts.ts';

type RunStatus = 'succeeded' | 'failed' | 'duplicate' | 'dryRun';

interface FailedChunk {
  chunk: number;
  step: 'log' | 'evaluate';
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
  /** `planned = traced + quarantined + outsideWindow + lost`; the run fails unless `lost` is 0. */
  lines: { planned: number; lost: number } & Omit<LogCounts, 'lines'>;
  /** `expected` is the sum of the other terms. Of `failed`, `failedRecorded` are error assessments; `lost` are nowhere. */
  verdicts: { expected: number; scorers: number; failedRecorded: number; lost: number } & VerdictCounts;
  /** Traces that carry a verdict, a new one or one from before; a trace counts once for each chunk that has its line. */
  evaluatedTraces: number;
  reasons: Record<string, number>;
  verdictsByScorer: Record<string, Record<string, number>>;
  quarantineReasons: Record<string, number>;
  spend: JudgeSpend;
  /**
   * Attempts to evaluate that left no receipt (killed, timed out, or never begun), absent where there are none: of what
   * those that were killed have paid the judge, `spend` has what was answered and kept where a later attempt found it.
   */
  unreportedAttempts?: number;
  estimate?: CostEstimate;
  /** Jobs of batch inference, and what was judged by Converse instead, with the reason. */
  batch?: BatchReport;
  /** What a person must know though the run went on, e.g. that the judge's model ends soon. */
  warnings?: string[];
  /** One of the warnings is that of the judge's model. */
  judgeModelEnding?: true;
  /** The first of the chunks that failed; all of them are in the receipts. */
  failedChunks: FailedChunk[];
  /** The first of the capture files that could not be planned, and how many there are. */
  failedFiles?: { count: number; first: FailedFile[] };
  /** What stopped planning or the Map itself. */
  error?: NamedError;
  /** Planning stopped before its last part: what was to follow is in no chunk, and no retry knows of it. */
  partlyPlanned?: true;
  /** Whether the two equations hold without a remainder; `null` where nothing was to be counted (a dry run, a duplicate). */
  equations: { lines: boolean | null; verdicts: boolean | null };
}

/** Failed chunks named in the summary; a person reads a few, the receipts hold all. */
const MAX_FAILED_CHUNKS = 100;

/** Reads everything a run has left in the work bucket. */
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
    summary.addChunk(chunk, states.get(chunk.chunk) ?? emptyChunkState());
  }
  summary.addBatch(await storage.getJson<BatchReport>(workBucket, workKeys.batchJobs(run.name)));
  return summary.build();
}

export class SummaryBuilder {
  readonly #summary: RunSummary;
  #planComplete = false;
  /** Chunks whose batch answers are in the sum. */
  readonly #batchPaid = new Set<number>();

  constructor(run: { name: string; startTime: string }, error?: NamedError) {
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
      lines: {
        planned: 0,
        traced: 0,
        written: 0,
        alreadyThere: 0,
        duplicateLine: 0,
        quarantined: 0,
        outsideWindow: 0,
        lost: 0,
      },
      verdicts: { expected: 0, scorers: 0, ...emptyVerdictCounts(), failedRecorded: 0, lost: 0 },
      evaluatedTraces: 0,
      // Without a prototype: a guideline, a value and an error's name may be called `constructor`.
      reasons: Object.create(null),
      verdictsByScorer: Object.create(null),
      quarantineReasons: Object.create(null),
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
      const all = [...first, ...plan.failedFiles].slice(0, MAX_FAILED_CHUNKS);
      summary.failedFiles = { count: count + plan.failedFiles.length, first: all };
    }
    if (plan.estimate !== undefined) summary.estimate = addEstimates(summary.estimate, plan.estimate);
  }

  /** Money is summed over all attempts of a chunk; what a batch job answered was paid once, whoever read it. */
  addSpend({ chunk, spend, batchSpend }: EvaluateReceipt): void {
    addSpend(this.#summary.spend, spend);
    if (batchSpend === undefined || this.#batchPaid.has(chunk)) return;
    this.#batchPaid.add(chunk);
    addSpend(this.#summary.spend, batchSpend);
  }

  addBatch(report: BatchReport | undefined): void {
    if (report !== undefined) this.#summary.batch = report;
  }

  addChunk(chunk: ManifestLine, state: ChunkState): void {
    addSpend(this.#summary.spend, toldTwice(state), -1);
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
    for (const name of Object.keys(terms) as (keyof typeof terms)[]) lines[name] += terms[name];
    // A chunk that counts otherwise than it was planned has lost the difference.
    lines.lost += Math.max(0, chunk.lines - counted);
    for (const part of parts) addCounts(quarantineReasons, part.quarantineReasons);
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
    // Without a successful attempt, what the last one did is counted, and the rest of the chunk is lost.
    const counted = whole || error === undefined ? parts : [...parts, error];
    if (whole) {
      chunks.evaluated += 1;
    } else {
      chunks.failed += 1;
      this.#fail(chunk, 'evaluate', error?.error);
    }
    for (const receipt of counted) this.#addReceipt(receipt);
    const told = counted.reduce((total, { counts }) => total + verdictTotal(counts), 0);
    const missing = Math.max(0, expected - told);
    verdicts.failed += missing;
    verdicts.lost += missing;
  }

  #addReceipt(receipt: EvaluateReceipt): void {
    const { verdicts, verdictsByScorer, reasons } = this.#summary;
    for (const term of VERDICT_TERMS) verdicts[term] += receipt.counts[term];
    verdicts.failedRecorded += receipt.failedRecorded;
    this.#summary.evaluatedTraces += receipt.evaluatedTraces ?? 0;
    addCounts(reasons, receipt.reasons);
    for (const [scorer, values] of Object.entries(receipt.verdicts)) {
      verdictsByScorer[scorer] ??= Object.create(null) as Record<string, number>;
      addCounts(verdictsByScorer[scorer], values);
    }
  }

  #fail(chunk: ManifestLine, step: FailedChunk['step'], error: NamedError | undefined): void {
    const { failedChunks } = this.#summary;
    if (failedChunks.length >= MAX_FAILED_CHUNKS) return;
    const { chunk: ordinal, bucket, key, start, end, firstLine, lines } = chunk;
    const unknown = {
      name: 'NoReceipt',
      message: `The ${step} step left no receipt: it timed out, was killed or never began`,
    };
    failedChunks.push({ chunk: ordinal, step, bucket, key, start, end, firstLine, lines, error: error ?? unknown });
  }

  build(): RunSummary {
    const summary = this.#summary;
    summary.endedAt = new Date().toISOString();
    const { lines, verdicts } = summary;
    if (!this.#planComplete && summary.chunks.planned > 0) summary.partlyPlanned = true;
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

/** A retry of what the budget held back that has judged nothing has not done what it was started for. */
function isStillHeld({ input, verdicts }: RunSummary): boolean {
  const what = (input as Partial<RetryInput> | null)?.retry?.what;
  return what === 'held' && verdicts.heldByBudget > 0 && verdicts.newVerdicts === 0;
}

function addCounts(total: Record<string, number>, more: Record<string, number>): void {
  for (const [name, count] of Object.entries(more)) total[name] = (total[name] ?? 0) + count;
}

/** Adds up parts of an estimate; how the figures were come by is the last one's. */
export function addEstimates(total: CostEstimate | undefined, more: CostEstimate): CostEstimate {
  if (total === undefined) return more;
  return {
    ...more,
    captures: total.captures + more.captures,
    judgedCaptures: total.judgedCaptures + more.judgedCaptures,
    judgeCalls: total.judgeCalls + more.judgeCalls,
    inputTokens: total.inputTokens + more.inputTokens,
    outputTokens: total.outputTokens + more.outputTokens,
    usd: total.usd === null || more.usd === null ? null : total.usd + more.usd,
  };
}

/** The run's failure in words for the execution's cause: what is missing, and what to start next. */
export function describeFailure(summary: RunSummary): { error: string; cause: string } {
  const { lines, verdicts, chunks, failedChunks, failedFiles, run } = summary;
  const isWhole = chunks.failed === 0 && !summary.partlyPlanned && lines.lost + verdicts.lost === 0;
  if (summary.error === undefined && failedFiles === undefined && isWhole && isStillHeld(summary)) {
    const cause = `The budget held back all ${verdicts.heldByBudget} verdicts again: raise EVALUATION_BUDGET_USD or the retry's "budgetUsd", or wait for the next day (UTC); then start {"retry":{"run":"${run}","what":"held"}}`;
    return { error: 'VerdictsStillHeld', cause };
  }
  if (summary.error !== undefined && chunks.planned === 0) {
    return { error: summary.error.name, cause: summary.error.message };
  }
  const facts = [
    ...(summary.error === undefined ? [] : [`${summary.error.name}: ${summary.error.message}`]),
    `${lines.lost} of ${lines.planned} lines and ${verdicts.lost} of ${verdicts.expected} verdicts are missing`,
    `${chunks.failed} of ${chunks.planned} chunks failed`,
    ...(failedFiles === undefined ? [] : [`${failedFiles.count} capture files could not be planned`]),
    ...(failedFiles?.first ?? []).slice(0, 3).map(({ key, error }) => `${key}: ${error.name}: ${error.message}`),
    ...failedChunks
      .slice(0, 3)
      .map(({ chunk, step, error }) => `chunk ${chunk} (${step}): ${error.name}: ${error.message}`),
    summary.partlyPlanned
      ? 'Planning stopped before its end, so that a retry would leave out what follows: start the same input again'
      : `retry with {"retry":{"run":"${run}","what":"failed"}}`,
  ];
  const one = isWhole ? failedFiles?.first[0]?.error.name : undefined;
  return { error: summary.error?.name ?? one ?? 'RunIncomplete', cause: facts.join('. ') };
}
