/** Has the judge and the code scorers assess the traces of one chunk. */
import { capturePathOf } from '../capture/capture-path.ts';
import type { Capture } from '../capture/types.ts';
import type { LambdaEnvironment } from '../common/environment.ts';
import { RetryableError } from '../common/errors.ts';
import type { Storage } from '../common/storage.ts';
import {
  type ChunkRequest,
  type EvaluateReceipt,
  type JudgeSpend,
  type NamedError,
  VERDICT_TERMS,
  type VerdictCounts,
} from '../contract.ts';
import { answeredBefore, JudgeHeld } from '../judge/errors.ts';
import type { SpendingLimit } from '../judge/spending-limit.ts';
import type { Judge, JudgeScorer, Scorer } from '../judge/types.ts';
import type { NewAssessment, StoredTrace, TraceStore } from '../mlflow/types.ts';
import { traceIdOf } from '../trace/ids.ts';
import { codeAssessment, killedAssessment, type VerdictContext, verdictAssessment } from './assessments.ts';
import { readChunk } from './chunk-reader.ts';
import { tryToEvaluate } from './evaluate-trial.ts';
import { HeldCaptures, WeightGate } from './held-captures.ts';
import { chunkOfPart, KILLED, leftOut, partOf } from './parts.ts';
import { type AlwaysRule, type PendingVerdicts, pendingVerdicts } from './pending-verdicts.ts';
import { addSpend, attemptFacts, emptySpend, emptyVerdictCounts, readQuarantine, writeReceipt } from './receipts.ts';

export interface EvaluateDependencies {
  storage: Storage;
  store: Pick<TraceStore, 'getTraces' | 'writeAssessments'>;
  judge: Judge;
  scorers: readonly Scorer[];
  environment: LambdaEnvironment;
  always: AlwaysRule;
  /** Absent when no budget is set. */
  limit?: SpendingLimit;
  /** Reads a batch job's answers for the chunk. */
  openBatch?(): Promise<BatchAnswers>;
  requestId: string;
  /** Milliseconds until the Lambda is ended. */
  remainingMs(): number;
}

export interface BatchAnswers {
  /** What all of them cost. */
  spend: JudgeSpend;
  /** First bytes of the lines that killed the function alone when the requests were made. */
  killed: readonly number[];
  /** The judge and the limit of one trace, in place of the chunk's own, and what its answer cost. */
  of(traceId: string): { judge: Judge; limit?: Pick<SpendingLimit, 'reserve'>; paid?: JudgeSpend };
}

/**
 * Captures under way at once. The judge's own limiter decides how many calls are really made; this many keep it busy
 * while others write their verdicts to MLflow.
 */
const CAPTURES_AT_ONCE = 48;

/** Kept back to write the verdicts of the calls under way, and the receipt. */
const FINISH_RESERVE_MS = 45_000;

/** Work before its turn comes. */
type PlannedWork = Omit<Work, 'capture'> & { read(): Capture };

interface Work {
  traceId: string;
  capture: Capture;
  weight: number;
  stored: StoredTrace;
  pending: PendingVerdicts;
}

/**
 * Assesses the chunk's traces and leaves a receipt whether it succeeds or not.
 *
 * @throws whatever stopped the chunk, by name, after the receipt is written. What was answered by then is in MLflow and
 *   is not asked again by the next attempt.
 */
export async function evaluateChunk(request: ChunkRequest, deps: EvaluateDependencies): Promise<EvaluateReceipt> {
  const chunk = new EvaluateChunk(request, deps);
  let failure: unknown;
  try {
    await chunk.run();
  } catch (error) {
    failure = error;
  }
  await deps.limit?.close().catch((error: unknown) => {
    // A reservation that is not given back expires by itself; the chunk's own failure is what matters.
    failure ??= error;
  });
  const receipt = chunk.receipt(failure);
  await writeReceipt(deps.storage, deps.environment.WORK_BUCKET, receipt);
  if (failure !== undefined) throw failure;
  return receipt;
}

class EvaluateChunk {
  readonly #request: ChunkRequest;
  readonly #deps: EvaluateDependencies;
  readonly #startedAt = new Date().toISOString();
  readonly #counts = emptyVerdictCounts();
  readonly #reasons: Record<string, number> = {};
  readonly #verdicts: Record<string, Record<string, number>> = {};
  readonly #spend = emptySpend();
  #traced = 0;
  #failedRecorded = 0;
  readonly #evaluated = new Set<string>();
  #batch: BatchAnswers | undefined;
  /** The first failure that ends the chunk; captures under way finish, no further one starts. */
  #stop: unknown;

  constructor(request: ChunkRequest, deps: EvaluateDependencies) {
    this.#request = request;
    this.#deps = deps;
  }

  async run(): Promise<void> {
    this.#batch = await this.#deps.openBatch?.();
    const work = await this.#plan();
    const gate = new WeightGate();
    const signal = AbortSignal.timeout(Math.max(1, this.#deps.remainingMs() - FINISH_RESERVE_MS));
    const next = work[Symbol.iterator]();
    const worker = async (): Promise<void> => {
      for (let item = next.next(); !item.done && this.#stop === undefined; item = next.next()) {
        if (signal.aborted) {
          this.#stop ??= this.#outOfTime();
          return;
        }
        try {
          const { read, ...rest } = item.value;
          await gate.pass(rest.weight, () => this.#assess({ ...rest, capture: read() }, signal));
        } catch (error) {
          this.#stop ??= signal.aborted ? this.#outOfTime(error) : error;
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(CAPTURES_AT_ONCE, work.length) }, worker));
    if (this.#stop !== undefined) throw this.#stop;
  }

  #outOfTime(cause?: unknown): RetryableError {
    const facts = { where: `chunk ${this.#request.chunk.chunk} of run ${this.#request.run}` };
    return new RetryableError('ChunkOutOfTime', 'The chunk needs longer than this Lambda has', facts, cause);
  }

  /** Reads the chunk's captures and settles all that needs no judge. */
  async #plan(): Promise<PlannedWork[]> {
    const { storage, store, environment, scorers, always } = this.#deps;
    const { variant } = capturePathOf(this.#request.chunk.key);
    const { options, run } = this.#request;
    const chunk = await chunkOfPart(storage, environment.WORK_BUCKET, this.#request.chunk, partOf(this.#request));
    // Among them are records whose trace MLflow refused: they are no traced lines, and owe no verdict.
    const quarantine = await readQuarantine(storage, environment.WORK_BUCKET, run, chunk.chunk);
    const lines: { traceId: string; read(): Capture; weight: number; duplicate: boolean; start: number }[] = [];
    const held = new HeldCaptures();
    const condemned: { traceId: string; start: number; reason: NamedError }[] = [];
    const leaveOut = leftOut(this.#request, quarantine, this.#batch?.killed);
    for await (const line of readChunk(storage, chunk, environment, options.window, {
      leaveOut,
      tryOut: tryToEvaluate,
    })) {
      if (line.kind === 'quarantine' && (line.reason === KILLED || line.tooHeavy) && line.bytes !== undefined) {
        const { bytes, place, reason } = line;
        condemned.push({ traceId: traceIdOf(chunk.experimentId, bytes), start: place.start, reason });
      }
      if (line.kind !== 'capture') continue;
      const { traceId, weight, duplicate } = line;
      lines.push({ traceId, read: held.hold(line), weight, duplicate, start: line.raw.place.start });
    }
    const ids = [...lines.filter(({ duplicate }) => !duplicate), ...condemned].map(({ traceId }) => traceId);
    const stored = await store.getTraces(chunk.experimentId, ids);
    const refused = new Set(quarantine.map(({ start }) => start));
    const isTraced = ({ traceId, start }: { traceId: string; start: number }): boolean =>
      stored.has(traceId) || !refused.has(start);
    for (const { traceId, reason } of condemned.filter(isTraced)) {
      await this.#condemn(traceId, stored.get(traceId), reason);
    }
    const traced = lines.filter(isTraced);
    const captures = traced.filter(({ duplicate }) => !duplicate);
    this.#traced += traced.length;
    this.#counts.duplicateLine += (traced.length - captures.length) * scorers.length;
    const work: PlannedWork[] = [];
    for (const { traceId, read, weight } of captures) {
      const capture = read();
      const trace = stored.get(traceId);
      const isAlways = always(capture, { variant }) !== undefined;
      const pending = pendingVerdicts(traceId, capture, trace, scorers, options, run, isAlways);
      for (const [term, count] of Object.entries(pending.settled)) this.#counts[term as 'failed'] += count;
      for (const reason of pending.reasons) this.#addReason(reason);
      if (pending.settled.alreadyThere) this.#evaluated.add(traceId);
      if (trace !== undefined && pending.judge.length + pending.code.length > 0) {
        work.push({ traceId, read, weight, stored: trace, pending });
      }
    }
    return work;
  }

  /** A line that killed the function alone, or would, is not looked at: its trace says so for each scorer without a verdict. */
  async #condemn(traceId: string, stored: StoredTrace | undefined, reason: NamedError): Promise<void> {
    const { judge, scorers } = this.#deps;
    const { run, options } = this.#request;
    const isOpen = { ...options, reevaluate: false };
    const { settled, reasons, ...pending } = pendingVerdicts(traceId, undefined, stored, scorers, isOpen, run, false);
    this.#traced += 1;
    for (const [term, count] of Object.entries(settled)) this.#counts[term as 'failed'] += count;
    for (const reason of reasons) this.#addReason(reason);
    const context = { traceId, run, overrides: pending.overrides };
    const errors = [...pending.judge, ...pending.code].map((one) =>
      killedAssessment(one, judge.sourceId, context, reason),
    );
    if (stored !== undefined) await this.#write(stored, errors);
  }

  async #assess({ traceId, capture, stored, pending }: Work, signal: AbortSignal): Promise<void> {
    const { judge } = this.#deps;
    const context: VerdictContext = { traceId, run: this.#request.run, overrides: pending.overrides };
    const assessments: NewAssessment[] = [];
    for (const scorer of pending.code) {
      const scored = codeAssessment(scorer, capture, context);
      if ('notJudgeable' in scored) this.#settle('notJudgeable', scored.notJudgeable);
      else assessments.push(scored);
    }
    let failure: unknown;
    if (pending.judge.length > 0) {
      const answered = await this.#ask(traceId, capture, pending.judge, signal).catch((error: unknown) => {
        failure = error;
        return { ...answeredBefore(error), held: 0 };
      });
      if (answered === 'held') {
        this.#counts.heldByBudget += pending.judge.length;
      } else {
        this.#addSpend(answered.spend);
        this.#counts.heldByBudget += answered.held;
        const byName = new Map(pending.judge.map((scorer) => [scorer.name, scorer]));
        for (const verdict of answered.verdicts) {
          const scorer = byName.get(verdict.scorer);
          if (scorer !== undefined) assessments.push(verdictAssessment(scorer, verdict, judge.sourceId, context));
        }
      }
    }
    await this.#write(stored, assessments);
    // What was answered before the judge failed is paid and kept; the rest is for the next attempt.
    if (failure !== undefined) throw failure;
  }

  async #write(stored: StoredTrace, assessments: readonly NewAssessment[]): Promise<void> {
    if (assessments.length === 0) return;
    const { written, traceMissing } = await this.#deps.store.writeAssessments(stored, assessments);
    const news = new Set(written);
    for (const assessment of assessments) {
      if (traceMissing) this.#settle('notJudgeable', 'traceMissing');
      // An error assessment that an earlier attempt has recorded is a failed verdict still.
      else if (news.has(assessment.assessmentId) || assessment.error !== undefined) this.#count(assessment);
      else this.#settle('alreadyThere');
    }
    if (!traceMissing && assessments.some(({ error }) => error === undefined)) this.#evaluated.add(stored.traceId);
  }

  /** @returns verdicts, what was spent by calls of this attempt, and how many scorers the budget held back */
  async #ask(traceId: string, capture: Capture, scorers: readonly JudgeScorer[], signal: AbortSignal) {
    const { judge, limit, paid } = { paid: undefined, ...(this.#batch?.of(traceId) ?? this.#deps) };
    const reservation = await limit?.reserve(judge.maxCostUsd(capture, scorers) ?? 0);
    if (reservation === 'held') return 'held' as const;
    try {
      const { verdicts, spend } = await judge.judge(capture, scorers, signal);
      const spent = spendBeyond(spend, paid);
      await reservation?.settle(spent.usd ?? 0);
      return { verdicts, spend: spent, held: 0 };
    } catch (error) {
      const { verdicts, spend } = answeredBefore(error);
      const spent = spendBeyond(spend, paid);
      await reservation?.settle(spent.usd ?? 0);
      if (!(error instanceof JudgeHeld)) throw error;
      return { verdicts, spend: spent, held: scorers.length - verdicts.length };
    }
  }

  #count(assessment: NewAssessment): void {
    if (assessment.error !== undefined) {
      this.#counts.failed += 1;
      this.#failedRecorded += 1;
      return;
    }
    this.#counts.newVerdicts += 1;
    const values = this.#verdicts[assessment.name] ?? {};
    this.#verdicts[assessment.name] = values;
    const add = (name: string, amount: number): void => {
      values[name] = (values[name] ?? 0) + amount;
    };
    if (typeof assessment.value === 'number') {
      add('count', 1);
      add('sum', assessment.value);
    } else {
      add(String(assessment.value), 1);
    }
  }

  #settle(term: keyof VerdictCounts, reason?: string): void {
    this.#counts[term] += 1;
    if (reason !== undefined) this.#addReason(reason);
  }

  #addReason(reason: string): void {
    this.#reasons[reason] = (this.#reasons[reason] ?? 0) + 1;
  }

  #addSpend(spend: JudgeSpend): void {
    addSpend(this.#spend, spend);
  }

  receipt(failure: unknown): EvaluateReceipt {
    return {
      step: 'evaluate',
      ...attemptFacts(this.#request, this.#deps.requestId, this.#startedAt, failure),
      scorers: this.#deps.scorers.length,
      traced: this.#traced,
      evaluatedTraces: this.#evaluated.size,
      counts: this.#counts,
      failedRecorded: this.#failedRecorded,
      reasons: this.#reasons,
      verdicts: this.#verdicts,
      spend: this.#spend,
      ...(this.#batch === undefined ? {} : { batchSpend: this.#batch.spend }),
    };
  }
}

/** What a capture's judging cost beyond the answer that a batch job had given for it. */
function spendBeyond(spend: JudgeSpend, paid: JudgeSpend | undefined): JudgeSpend {
  if (paid === undefined) return spend;
  // The job's answer was the only one, or was not read.
  if (spend.calls <= paid.calls) return emptySpend();
  return {
    calls: spend.calls - paid.calls,
    inputTokens: spend.inputTokens - paid.inputTokens,
    outputTokens: spend.outputTokens - paid.outputTokens,
    usd: spend.usd === null || paid.usd === null ? null : Math.max(0, spend.usd - paid.usd),
  };
}

/** What a whole file's chunks came to, for a direct invocation and for the child execution's output. */
export function sumEvaluations(
  receipts: readonly EvaluateReceipt[],
): VerdictCounts & { failedRecorded: number; spend: JudgeSpend } {
  const total = { ...emptyVerdictCounts(), failedRecorded: 0, spend: emptySpend() };
  for (const { counts, failedRecorded, spend, batchSpend } of receipts) {
    for (const term of VERDICT_TERMS) total[term] += counts[term];
    total.failedRecorded += failedRecorded;
    addSpend(total.spend, spend);
    if (batchSpend !== undefined) addSpend(total.spend, batchSpend);
  }
  return total;
}
