/** Assesses the captures of a chunk, one at a time: asks the judge and runs the code scorers. Writes nothing to MLflow. */

import type { Capture } from '../../captures/types.ts';
import type { JudgeSpend } from '../../core/contract/receipts.ts';
import { ownFault } from '../../core/errors/own-fault.ts';
import { ownTurn } from '../../core/process/concurrency.ts';
import { timeOf, withinTime } from '../../core/process/within-time.ts';
import { answeredBefore, type HeldFor, JudgeHeld } from '../../judge/errors.ts';
import { questionOf } from '../../judge/question.ts';
import type { JudgeScorer, Verdict } from '../../judge/types.ts';
import type { NewAssessment } from '../../mlflow/types.ts';
import { addSpend, emptySpend } from '../counts.ts';
import { codeAssessments, failedAssessment, type VerdictContext, verdictAssessment } from './assessments.ts';
import { type KnownAnswers, type NewAnswer, wouldRecur } from './known-answers.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';
import type { AssessDependencies, BatchAnswers } from './types.ts';

interface Work {
  traceId: string;
  capture: Capture;
  pending: PendingVerdicts;
}

/** A request to the judge that has no answer yet. */
interface Asking extends Work {
  open: readonly JudgeScorer[];
  /** Its digest. Absent if the capture provokes a fault when it is derived. */
  ask: string | undefined;
}

/** The judge’s answers about a capture, from this attempt or an earlier one. */
interface Answered {
  verdicts: Verdict[];
  /** The number of scorers that the budget, or the provider’s day, had no room for. */
  held: number;
  heldFor?: HeldFor | undefined;
  /** The failure of the judge, to be thrown after the verdicts are written. */
  failure?: unknown;
}

/** The assessments of a capture, not written yet. */
export interface CaptureOutcome extends Omit<Answered, 'verdicts'> {
  assessments: NewAssessment[];
  notJudgeable: string[];
}

const NOT_ASKED: Answered = { verdicts: [], held: 0 };
const NOTHING_PAID = { inputTokens: 0, outputTokens: 0, usd: 0 };

export class CaptureAssessor {
  /** The cost of what was asked in this attempt. */
  readonly spend = emptySpend();
  /** The answers of the chunk’s batch job, if it has one; set before the first capture. */
  batch: BatchAnswers | undefined;
  readonly #run: string;
  readonly #deps: AssessDependencies;
  readonly #journal: KnownAnswers;
  /** The requests that this attempt is asking now, by their digest. */
  readonly #asking = new Map<string, Promise<unknown>>();

  constructor(run: string, deps: AssessDependencies, journal: KnownAnswers) {
    this.#run = run;
    this.#deps = deps;
    this.#journal = journal;
  }

  /** @returns the time for the synchronous work on the capture, in milliseconds */
  timeMsOf(capture: Capture): number {
    return this.#deps.timeMs ?? timeOf(capture);
  }

  contextOf({ traceId, pending }: Pick<Work, 'traceId' | 'pending'>): VerdictContext {
    const { part, sample, replaces } = pending;
    return { traceId, run: this.#run, part, sample, replaces };
  }

  /**
   * Returns the assessments of a capture, with the failure of the judge that ended the asking, if there was one.
   *
   * @param signal ends the asking; `undefined`: only the scorers without a judge assess the capture
   * @returns `claimed` when the capture must wait, because another chunk is asking the judge the same
   */
  async assess(work: Work, signal: AbortSignal | undefined): Promise<CaptureOutcome | 'claimed'> {
    try {
      return await this.#outcome(work, signal);
    } catch (error) {
      return this.#failed(work, error);
    }
  }

  /** Returns an error assessment for each scorer without a verdict. */
  errors(work: Pick<Work, 'traceId' | 'pending'>, fault: string, code?: string): CaptureOutcome {
    const { code: ofCode, judge, failed } = work.pending;
    const assessments = [...ofCode, ...judge, ...failed.map(({ scorer }) => scorer)].map((scorer) =>
      failedAssessment(scorer, this.#deps.judge.sourceId, this.contextOf(work), fault, code),
    );
    return { assessments, notJudgeable: [], held: 0 };
  }

  /** An exception that is not a named error comes from the capture: it gets error assessments, and the others continue. */
  #failed(work: Work, error: unknown): CaptureOutcome {
    const fault = ownFault(error);
    if (fault === undefined) throw error;
    return this.errors(work, fault);
  }

  async #outcome(work: Work, signal: AbortSignal | undefined): Promise<CaptureOutcome | 'claimed'> {
    const { capture, pending } = work;
    await ownTurn();
    const { sourceId } = this.#deps.judge;
    const context = this.contextOf(work);
    const asks = pending.judge.length > 0 && signal !== undefined;
    const answered = asks ? await this.#answered(work, signal) : NOT_ASKED;
    if (answered === 'claimed') return 'claimed';
    await ownTurn();
    const assessments = pending.failed.map(({ scorer, fault }) => failedAssessment(scorer, sourceId, context, fault));
    const notJudgeable: string[] = [];
    for (const scored of codeAssessments(pending.code, capture, this.timeMsOf(capture), context)) {
      if ('notJudgeable' in scored) notJudgeable.push(scored.notJudgeable);
      else assessments.push(scored);
    }
    const byName = new Map(pending.judge.map((scorer) => [scorer.name, scorer]));
    for (const verdict of answered.verdicts) {
      const scorer = byName.get(verdict.scorer);
      if (scorer !== undefined) assessments.push(verdictAssessment(scorer, verdict, sourceId, context));
    }
    const { held, heldFor, failure } = answered;
    return { assessments, notJudgeable, held, heldFor, failure };
  }

  /** Asks the judge for the verdicts that are not in the journal. */
  async #answered(work: Work, signal: AbortSignal): Promise<Answered | 'claimed'> {
    const { traceId, capture, pending } = work;
    const { sourceId } = this.#deps.judge;
    const known = this.#journal.known(traceId, pending.judge, sourceId);
    const open = this.#journal.openOf(traceId, pending.judge, sourceId);
    if (open.length === 0) return { verdicts: known, held: 0 };
    const answered = await this.#inTurn({ ...work, open, ask: this.#askOf(capture, open) }, signal);
    return answered === 'claimed' ? answered : { ...answered, verdicts: [...known, ...answered.verdicts] };
  }

  /** Of the captures with the same request, one asks at a time. If it gets no answer, the next one asks. */
  async #inTurn(asking: Asking, signal: AbortSignal): Promise<Answered | 'claimed'> {
    const { ask } = asking;
    if (ask === undefined) return this.#ask(asking, signal);
    while (this.#asking.has(ask)) await this.#asking.get(ask);
    const answered = this.#claimedOrAsked({ ...asking, ask }, signal);
    const ended = answered.catch(() => undefined).then(() => this.#asking.delete(ask));
    this.#asking.set(ask, ended);
    return answered;
  }

  async #claimedOrAsked(asking: Asking & { ask: string }, signal: AbortSignal): Promise<Answered | 'claimed'> {
    const same = await this.#claimed(asking.ask);
    if (same === 'claimed') return same;
    if (same !== undefined) return { verdicts: this.#copied(same, asking.traceId, asking.ask), held: 0 };
    let isWhole = false;
    try {
      const answered = await this.#ask(asking, signal);
      isWhole = answered.verdicts.length === asking.open.length && answered.verdicts.every(wouldRecur);
      return answered;
    } finally {
      // Chunks with the same request would wait until this function has certainly ended.
      if (!isWhole) await this.#deps.claims?.release(asking.ask);
    }
  }

  /** Returns the digest of the request; `undefined` if the capture provokes a fault, which the judge meets too. */
  #askOf(capture: Capture, open: readonly JudgeScorer[]): string | undefined {
    try {
      return withinTime(this.timeMsOf(capture), () => questionOf(this.#deps.judge.sourceId, capture, open));
    } catch (error) {
      if (ownFault(error) === undefined) throw error;
      return undefined;
    }
  }

  /** @returns the answer to the same request; `undefined` if this attempt must ask */
  async #claimed(ask: string): Promise<NewAnswer | 'claimed' | undefined> {
    const { claims, judge } = this.#deps;
    const own = this.#journal.answered(ask, judge.sourceId);
    if (own !== undefined || claims === undefined) return own;
    const other = await claims.take(ask);
    if (other === undefined) return undefined;
    const theirs = await this.#journal.answeredIn(other.chunk, ask, judge.sourceId);
    if (theirs !== undefined) return theirs;
    if (Date.now() < other.untilMs) return 'claimed';
    return (await claims.take(ask, other.chunk)) === undefined ? undefined : 'claimed';
  }

  /** The answer to the same request costs nothing again. */
  #copied({ answers, judge }: NewAnswer, trace: string, ask: string): Verdict[] {
    const copies = answers.map(({ version, verdict }) => ({ version, verdict: { ...verdict, usage: NOTHING_PAID } }));
    this.#journal.keep({ trace, ask, judge, answers: copies, whole: true, spend: emptySpend() });
    return copies.map(({ verdict }) => verdict);
  }

  async #ask({ traceId: trace, capture, open, ask }: Asking, signal: AbortSignal): Promise<Answered> {
    const from = this.batch?.of(trace);
    const { judge } = from ?? this.#deps;
    let failure: unknown;
    const known = this.#journal.leftOpen(trace, open, judge.sourceId);
    const money = { leftOpen: known, ...(from?.money ?? { limit: this.#deps.limit }) };
    const result = await judge.judge(capture, open, signal, money).catch((error: unknown) => {
      failure = error;
      return answeredBefore(error);
    });
    const spend = spendBeyond(result.spend, from?.paid);
    addSpend(this.spend, spend);
    const { verdicts } = result;
    const heldFor = failure instanceof JudgeHeld ? failure.heldFor : undefined;
    const held = heldFor === undefined ? 0 : open.length - verdicts.length;
    const versions = new Map(open.map(({ name, version }) => [name, version]));
    const answers = verdicts.map((verdict) => ({ version: versions.get(verdict.scorer) ?? '', verdict }));
    const leftOpen = result.leftOpen?.map((scorer) => ({ scorer, version: versions.get(scorer) ?? '' })) ?? [];
    const whole = answers.length === open.length;
    if (answers.length + leftOpen.length + spend.calls > 0) {
      const left = leftOpen.length > 0 && { leftOpen };
      this.#journal.keep({ trace, ask, judge: judge.sourceId, answers, ...left, whole, spend });
    }
    return { verdicts, held, heldFor, failure: heldFor === undefined ? failure : undefined };
  }
}

/** Returns the cost of judging a capture, without the answer of the batch job, which is already paid. */
function spendBeyond(spend: JudgeSpend, paid: JudgeSpend | undefined): JudgeSpend {
  if (paid === undefined) return spend;
  // The answer of the job was the only one, or it was not read.
  if (spend.calls <= paid.calls) return emptySpend();
  const rest = { ...spend };
  addSpend(rest, paid, -1);
  return { ...rest, usd: rest.usd === null ? null : Math.max(0, rest.usd) };
}
