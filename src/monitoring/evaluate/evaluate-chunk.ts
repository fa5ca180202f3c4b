/** Has the judge and the code scorers assess the traces of one chunk. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ChunkRequest } from '../../contract/payloads.ts';
import {
  type EvaluateReceipt,
  type JudgeSpend,
  type NamedError,
  type TakenOver,
  VERDICT_TERMS,
  type VerdictCounts,
} from '../../contract/receipts.ts';
import { capturePathOf } from '../../formats/record/capture-path.ts';
import type { Capture } from '../../formats/types.ts';
import type { SpendingLimit } from '../../judge/budget/spending-limit.ts';
import { answeredBefore, JudgeHeld } from '../../judge/errors.ts';
import type { ModelAnswer } from '../../judge/model-answer.ts';
import type { Judge, Scorer, Verdict } from '../../judge/types.ts';
import { MlflowRefusedError } from '../../mlflow/errors.ts';
import type { NewAssessment, StoredTrace, TraceStore, WriteAssessmentsResult } from '../../mlflow/types.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { forEachConcurrently } from '../../shared/concurrency.ts';
import { RetryableError } from '../../shared/errors.ts';
import { ownFault } from '../../shared/own-fault.ts';
import type { Storage } from '../../shared/storage.ts';
import { timeOf } from '../../shared/within-time.ts';
import { traceIdOf } from '../../trace/ids.ts';
import { readChunk } from '../chunk/chunk-reader.ts';
import { chunkOfPart, KILLED, leftOut, partOf } from '../chunk/parts.ts';
import { addSpend, attemptFacts, emptySpend, emptyVerdictCounts, readQuarantine, writeReceipt } from '../receipts.ts';
import { AnswerJournal } from './answer-journal.ts';
import {
  codeAssessments,
  failedAssessment,
  refusedAssessment,
  type VerdictContext,
  verdictAssessment,
} from './assessments.ts';
import { tryToEvaluate } from './evaluate-trial.ts';
import { HeldCaptures, WeightGate } from './held-captures.ts';
import { type AlwaysRule, type PendingVerdicts, pendingVerdicts } from './pending-verdicts.ts';

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
  /** In place of the time that a capture has, and its scorers with it. */
  timeMs?: number;
}

export interface BatchAnswers {
  /** What all of them cost. */
  spend: JudgeSpend;
  /** First bytes of the lines that killed the function alone when the requests were made. */
  killed: readonly number[];
  /** The judge and the limit of one trace, in place of the chunk's own, its answer, and what that cost. */
  of(traceId: string): {
    judge: Judge;
    limit?: Pick<SpendingLimit, 'reserve'> | undefined;
    told?: ModelAnswer;
    paid?: JudgeSpend;
  };
}

/**
 * Captures under way at once. The judge's own limiter decides how many calls are really made; this many keep it busy
 * while others write their verdicts to MLflow.
 */
const CAPTURES_AT_ONCE = 48;

/** Kept back to write the verdicts of the calls under way, and the receipt. */
const FINISH_RESERVE_MS = 45_000;

/** How often it is looked whether another chunk has the answer to a line that both hold. */
const CLAIM_POLL_MS = 1_000;

/** Work before its turn comes. */
type PlannedWork = Omit<Work, 'capture'> & { read(): Capture };

interface Work {
  traceId: string;
  capture: Capture;
  weight: number;
  stored: StoredTrace;
  pending: PendingVerdicts;
}

/** What the judge has said of a capture, in this attempt or an earlier one. */
interface Answered {
  verdicts: Verdict[];
  /** Scorers that the budget had no room for. */
  held: number;
  /** Thrown when what there is is written. */
  failure?: unknown;
}

/** What is to be written of a capture, and counted when it is. */
interface Outcome extends Omit<Answered, 'verdicts'> {
  assessments: NewAssessment[];
  notJudgeable: string[];
}

const NOT_ASKED: Answered = { verdicts: [], held: 0 };

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
  // Without a prototype: a guideline may be called `constructor`, and so may a value.
  readonly #reasons: Record<string, number> = Object.create(null);
  readonly #verdicts: Record<string, Record<string, number>> = Object.create(null);
  readonly #journal: AnswerJournal;
  /** What was asked in this attempt. */
  readonly #spend = emptySpend();
  readonly #takenOver: TakenOver[] = [];
  #traced = 0;
  #failedRecorded = 0;
  readonly #evaluated = new Set<string>();
  #batch: BatchAnswers | undefined;
  /** The first failure that ends the chunk; captures under way finish, no further one starts. */
  #stop: unknown;

  constructor(request: ChunkRequest, deps: EvaluateDependencies) {
    this.#request = request;
    this.#deps = deps;
    const { storage, environment, requestId, remainingMs } = deps;
    const until = Date.now() + remainingMs();
    this.#journal = new AnswerJournal(storage, environment.WORK_BUCKET, request, requestId, until);
  }

  async run(): Promise<void> {
    this.#batch = await this.#deps.openBatch?.();
    let work = await this.#plan();
    const gate = new WeightGate();
    const signal = AbortSignal.timeout(Math.max(1, this.#deps.remainingMs() - FINISH_RESERVE_MS));
    for (;;) {
      work = await this.#assessAll(work, gate, signal);
      if (this.#stop !== undefined) throw this.#stop;
      if (work.length === 0) return;
      // The chunk that asks has the same line: its answer is here in seconds, or its function has ended.
      await sleep(CLAIM_POLL_MS);
    }
  }

  /** @returns what another chunk is asking the judge about at this moment */
  async #assessAll(work: readonly PlannedWork[], gate: WeightGate, signal: AbortSignal): Promise<PlannedWork[]> {
    const claimed: PlannedWork[] = [];
    await forEachConcurrently(CAPTURES_AT_ONCE, work, async (item) => {
      if (this.#stop !== undefined) return;
      try {
        signal.throwIfAborted();
        const { read, ...rest } = item;
        const assess = () => this.#assess({ ...rest, capture: read() }, signal);
        if (!(await gate.pass(rest.weight, assess))) claimed.push(item);
      } catch (error) {
        this.#stop ??= signal.aborted ? this.#outOfTime(error) : error;
      }
    });
    return claimed;
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
    await this.#journal.unreported(ids, this.#takenOver);
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
      const isAlways = (): boolean => always(capture, { variant }) !== undefined;
      const look = { capture, timeMs: this.#timeMsOf(capture), isAlways };
      const pending = pendingVerdicts(traceId, look, trace, scorers, options, run);
      for (const [term, count] of Object.entries(pending.settled)) this.#counts[term as 'failed'] += count;
      for (const reason of pending.reasons) this.#addReason(reason);
      if (pending.settled.alreadyThere) this.#evaluated.add(traceId);
      if (trace !== undefined && pending.judge.length + pending.code.length + pending.failed.length > 0) {
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
    const { settled, reasons, ...pending } = pendingVerdicts(traceId, undefined, stored, scorers, isOpen, run);
    this.#traced += 1;
    for (const [term, count] of Object.entries(settled)) this.#counts[term as 'failed'] += count;
    for (const reason of reasons) this.#addReason(reason);
    const context = { traceId, run, overrides: pending.overrides };
    const errors = [...pending.judge, ...pending.code].map((one) =>
      failedAssessment(one, judge.sourceId, context, reason.message, reason.name),
    );
    if (stored !== undefined) await this.#record(stored, errors);
  }

  /** @returns false when the capture's turn is later, since another chunk is asking about the same line */
  async #assess(work: Work, signal: AbortSignal): Promise<boolean> {
    const outcome = await this.#outcome(work, signal).catch((error: unknown) => this.#failed(work, error));
    if (outcome === 'claimed') return false;
    await this.#record(work.stored, outcome.assessments);
    for (const reason of outcome.notJudgeable) this.#settle('notJudgeable', reason);
    this.#counts.heldByBudget += outcome.held;
    // What was answered before the judge failed is paid and kept; the rest is for the next attempt.
    if (outcome.failure !== undefined) throw outcome.failure;
    return true;
  }

  async #record(stored: StoredTrace, all: readonly NewAssessment[]): Promise<void> {
    const { assessments, written, traceMissing } = await this.#write(stored, all);
    const news = new Set(written);
    for (const assessment of assessments) {
      if (traceMissing) this.#settle('notJudgeable', 'traceMissing');
      // An error assessment that an earlier attempt has recorded is a failed verdict still.
      else if (news.has(assessment.assessmentId) || assessment.error !== undefined) this.#count(assessment);
      else this.#settle('alreadyThere');
    }
    if (!traceMissing && assessments.some(({ error }) => error === undefined)) this.#evaluated.add(stored.traceId);
  }

  #timeMsOf(capture: Capture): number {
    return this.#deps.timeMs ?? timeOf(capture);
  }

  #contextOf({ traceId, pending }: Work): VerdictContext {
    return { traceId, run: this.#request.run, overrides: pending.overrides };
  }

  /** Whatever the capture provokes beyond the named errors is its own: it gets error assessments, and the others go on. */
  #failed(work: Work, error: unknown): Outcome {
    const fault = ownFault(error);
    if (fault === undefined) throw error;
    const { code, judge, failed } = work.pending;
    const assessments = [...code, ...judge, ...failed.map(({ scorer }) => scorer)].map((scorer) =>
      failedAssessment(scorer, this.#deps.judge.sourceId, this.#contextOf(work), fault),
    );
    return { assessments, notJudgeable: [], held: 0 };
  }

  async #outcome(work: Work, signal: AbortSignal): Promise<Outcome | 'claimed'> {
    const { capture, pending } = work;
    const { sourceId } = this.#deps.judge;
    const context = this.#contextOf(work);
    const answered = pending.judge.length === 0 ? NOT_ASKED : await this.#ask(work, signal);
    if (answered === 'claimed') return 'claimed';
    const assessments = pending.failed.map(({ scorer, fault }) => failedAssessment(scorer, sourceId, context, fault));
    const notJudgeable: string[] = [];
    for (const scored of codeAssessments(pending.code, capture, this.#timeMsOf(capture), context)) {
      if ('notJudgeable' in scored) notJudgeable.push(scored.notJudgeable);
      else assessments.push(scored);
    }
    const byName = new Map(pending.judge.map((scorer) => [scorer.name, scorer]));
    for (const verdict of answered.verdicts) {
      const scorer = byName.get(verdict.scorer);
      if (scorer !== undefined) assessments.push(verdictAssessment(scorer, verdict, sourceId, context));
    }
    return { assessments, notJudgeable, held: answered.held, failure: answered.failure };
  }

  /** Has the judge answer what no attempt has its answer to, and keeps that before anything else. */
  async #ask({ traceId, capture, pending }: Work, signal: AbortSignal): Promise<Answered | 'claimed'> {
    const { judge, limit, told, paid } = {
      told: undefined,
      paid: undefined,
      ...(this.#batch?.of(traceId) ?? this.#deps),
    };
    const taken = await this.#journal.take(traceId, pending.judge, judge.sourceId);
    if (taken.open === undefined) return 'claimed';
    const { open } = taken;
    if (open.length === 0) return { verdicts: taken.verdicts, held: 0 };
    let failure: unknown;
    const { verdicts, spend } = await judge
      .judge(capture, open, signal, { limit, answer: told })
      .catch((error: unknown) => {
        failure = error;
        return answeredBefore(error);
      });
    const spent = spendBeyond(spend, paid);
    addSpend(this.#spend, spent);
    const held = failure instanceof JudgeHeld ? open.length - verdicts.length : 0;
    if (failure instanceof JudgeHeld) failure = undefined;
    await this.#journal.keep(traceId, taken, judge.sourceId, verdicts, spent).catch((error: unknown) => {
      // MLflow may take them all the same.
      failure ??= error;
    });
    return { verdicts: [...taken.verdicts, ...verdicts], held, failure };
  }

  /** Writes what MLflow takes; in the place of what it refuses, and takes from no other capture, an error says so. */
  async #write(
    stored: StoredTrace,
    assessments: readonly NewAssessment[],
  ): Promise<WriteAssessmentsResult & { assessments: readonly NewAssessment[] }> {
    const { store } = this.#deps;
    try {
      if (assessments.length === 0) return { assessments, written: [], alreadyThere: [] };
      return { assessments, ...(await store.writeAssessments(stored, assessments)) };
    } catch (error) {
      const fault = error instanceof MlflowRefusedError ? `MLflow answered HTTP ${error.status}` : ownFault(error);
      if (fault === undefined) throw error;
      const [only, ...others] = assessments;
      if (only !== undefined && others.length === 0) {
        const refused = [refusedAssessment(only, fault)];
        return { assessments: refused, ...(await store.writeAssessments(stored, refused)) };
      }
      const total = { assessments: [] as NewAssessment[], written: [] as string[], alreadyThere: [] as string[] };
      for (const assessment of assessments) {
        const one = await this.#write(stored, [assessment]);
        if (one.traceMissing) return { ...one, assessments };
        total.assessments.push(...one.assessments);
        total.written.push(...one.written);
      }
      return total;
    }
  }

  #count(assessment: NewAssessment): void {
    if (assessment.error !== undefined) {
      this.#counts.failed += 1;
      this.#failedRecorded += 1;
      return;
    }
    this.#counts.newVerdicts += 1;
    const values = this.#verdicts[assessment.name] ?? (Object.create(null) as Record<string, number>);
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

  receipt(failure: unknown): EvaluateReceipt {
    const spend = { ...this.#spend };
    for (const taken of this.#takenOver) addSpend(spend, taken.spend);
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
      spend,
      ...(this.#takenOver.length === 0 ? {} : { takenOver: this.#takenOver }),
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
