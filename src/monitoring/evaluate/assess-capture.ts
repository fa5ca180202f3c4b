/**
 * Assesses the captures of a chunk, one at a time: asks the judge and runs the code scorers. Writes nothing to MLflow.
 */

import type { Capture } from '../../captures/types.ts';
import { yieldToEventLoop } from '../../core/process/concurrency.ts';
import { ownFault, unlessFaulty } from '../../core/process/own-fault.ts';
import { timeOf, withinTime } from '../../core/process/within-time.ts';
import { answeredBefore, type HeldFor, JudgeHeld } from '../../judge/errors.ts';
import { type RecordSource, scorerRecord } from '../../judge/functions/record.ts';
import { questionOf } from '../../judge/question.ts';
import { functionArnOf, isFunctionScorer, isModelScorer } from '../../judge/scorers/scorer-set.ts';
import { addSpend, emptySpend, spendBeyond } from '../../judge/spend.ts';
import type { JudgeMoney, JudgeResult, JudgeScorer, Scorer, Verdict } from '../../judge/types.ts';
import type { NewAssessment } from '../../mlflow/types.ts';
import type { ScorerOutcome } from '../outcomes/line-outcome.ts';
import type { KeptAnswers } from './answer-table.ts';
import { type Kept, knownVerdicts, leftToJudge, paidElsewhere, withResult } from './answers.ts';
import {
  codeAssessments,
  failedAssessment,
  type VerdictContext,
  verdictAssessment,
  verdictWithoutWords,
  withoutWords,
} from './assessments.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';
import type { AssessDependencies, BatchAnswers } from './types.ts';

interface Work {
  traceId: string;
  capture: Capture;
  pending: PendingVerdicts;
}

/** A question to the judge, or to the function of a scorer. */
interface Asking extends Pick<Work, 'traceId'> {
  question: string;
  answers: KeptAnswers;
  scorers: readonly JudgeScorer[];
  /** The verdicts are kept without texts. */
  isBare: boolean;
  /** The answers of the batch job, if it is a question to the judge. */
  batch?: BatchAnswers | undefined;
  ask(open: readonly JudgeScorer[], money: JudgeMoney): Promise<JudgeResult>;
}

/** A capture for the functions of scorers. */
type FunctionWork = RecordSource & Pick<Work, 'pending'>;
type Read = <T>(use: (capture: Capture) => T) => Promise<T>;

/** The answers about a capture, from this attempt or an earlier one. */
interface Answered {
  verdicts: Verdict[];
  /** The budget, or the provider’s day, had no room for the scorers without a verdict. */
  heldFor?: HeldFor | undefined;
  /** The failure of the judge, to be thrown after the verdicts are written. */
  failure?: unknown;
}

/** The assessments of a capture, not written yet. */
export interface CaptureOutcome extends Pick<Answered, 'failure'> {
  assessments: readonly NewAssessment[];
  /** Scorers that do not apply, or that were held. One that the judge has failed is in neither list. */
  without: ScorerOutcome[];
}

/** Returns the outcome of a capture by all of its scorers. */
export const joined = (all: readonly CaptureOutcome[]): CaptureOutcome => ({
  assessments: all.flatMap(({ assessments }) => assessments),
  without: all.flatMap(({ without }) => without),
  failure: all.find(({ failure }) => failure !== undefined)?.failure,
});

/** The outcome of a capture that is not judged now. If its trace is in MLflow, it waits for the next attempt. */
export const NOT_JUDGED: CaptureOutcome = { assessments: [], without: [] };

const NOT_ASKED: Answered = { verdicts: [] };

export class CaptureAssessor {
  /** Cost of the questions in this attempt. */
  readonly spend = emptySpend();
  /** The answers of the chunk’s batch job, if it has a job; set before the first capture. */
  batch: BatchAnswers | undefined;
  readonly #run: string;
  readonly #deps: AssessDependencies;
  readonly #answers: KeptAnswers;
  readonly #functionAnswers: KeptAnswers;
  #functions: ReturnType<NonNullable<AssessDependencies['functions']>> | undefined;
  /** The questions that this attempt is asking now. */
  readonly #asking = new Map<string, Promise<unknown>>();

  constructor(run: string, deps: AssessDependencies, answers: KeptAnswers, functionAnswers = answers) {
    this.#run = run;
    this.#deps = deps;
    this.#answers = answers;
    this.#functionAnswers = functionAnswers;
  }

  /** @returns the time for the synchronous work on the capture, in milliseconds */
  timeMsOf(capture: Capture): number {
    return this.#deps.timeMs ?? timeOf(capture);
  }

  contextOf({ traceId, pending }: Pick<Work, 'traceId' | 'pending'>): VerdictContext {
    const { stratum, sample, chances, replaces } = pending;
    return { traceId, run: this.#run, stratum, sample, isByNumber: chances.isByNumber, replaces };
  }

  /**
   * Returns the assessments of a capture, with the failure of the judge that ended the asking, if there was one.
   *
   * @param signal ends the asking; `undefined`: only the scorers without a judge assess the capture
   */
  async assess(work: Work, signal: AbortSignal | undefined): Promise<CaptureOutcome> {
    const outcome = await this.#outcome(work, signal).catch((error: unknown) => {
      // An exception that is not a named error comes from the capture. The other captures continue.
      const fault = ownFault(error);
      if (fault === undefined) throw error;
      return this.errors(work, fault);
    });
    return bareIf(work.capture.content === 'none', outcome);
  }

  /**
   * Asks the functions of the capture's scorers. Until they answer, the capture need not stay in memory.
   *
   * @param read gives the capture when there is room for it
   * @returns `undefined` without such scorers
   */
  askFunctions(work: FunctionWork, read: Read, signal: AbortSignal): Promise<CaptureOutcome> | undefined {
    const scorers = work.pending.judge.filter(isFunctionScorer);
    if (scorers.length === 0) return undefined;
    // One record is for all scorers. Only its text stays in memory.
    const made = read((capture) => {
      const { record, digest } = withinTime(this.timeMsOf(capture), () => scorerRecord(capture, work));
      const questions = scorers.map((scorer) => digest(functionArnOf(scorer)));
      return { questions, record: JSON.stringify(record), isBare: capture.content === 'none' };
    });
    const outcomes = scorers.map(async (scorer, at): Promise<CaptureOutcome> => {
      try {
        const { questions, ...rest } = await made;
        return await this.#askFunction(scorer, work, { question: questions[at] ?? '', ...rest }, signal);
      } catch (failure) {
        const fault = ownFault(failure);
        if (fault === undefined) return { ...NOT_JUDGED, failure };
        return { assessments: [failedAssessment(scorer, '', this.contextOf(work), fault)], without: [] };
      }
    });
    return Promise.all(outcomes).then(joined);
  }

  async #askFunction(
    scorer: JudgeScorer,
    work: FunctionWork,
    { question, record, isBare }: { question: string; record: string; isBare: boolean },
    signal: AbortSignal,
  ): Promise<CaptureOutcome> {
    this.#functions ??= this.#deps.functions?.(signal);
    const asked = this.#functions?.get(scorer.name);
    if (asked === undefined) throw new Error(`The function of ${scorer.name} is not connected`);
    const { traceId } = work;
    const ask = () => asked.ask(record);
    const asking = { traceId, question, answers: this.#functionAnswers, scorers: [scorer], isBare, ask };
    const answered = await this.#answered(asking, signal);
    return bareIf(isBare, this.#outcomeOf(answered, [scorer], this.contextOf(work)));
  }

  /** Returns an error assessment for each scorer without a verdict. */
  errors(work: Pick<Work, 'traceId' | 'pending'>, fault: string, code?: string): CaptureOutcome {
    const { code: ofCode, judge, failed } = work.pending;
    const assessments = [...ofCode, ...judge, ...failed.map(({ scorer }) => scorer)].map((scorer) =>
      failedAssessment(scorer, this.#deps.judge.sourceId, this.contextOf(work), fault, code),
    );
    return { assessments, without: [] };
  }

  async #outcome(work: Work, signal: AbortSignal | undefined): Promise<CaptureOutcome> {
    const { capture, pending } = work;
    await yieldToEventLoop();
    const { sourceId } = this.#deps.judge;
    const context = this.contextOf(work);
    const scorers = pending.judge.filter(isModelScorer);
    const asks = scorers.length > 0 && signal !== undefined;
    const answered = asks ? await this.#answered(this.#toJudge(work, scorers, signal), signal) : NOT_ASKED;
    await yieldToEventLoop();
    const assessments = pending.failed.map(({ scorer, fault }) => failedAssessment(scorer, sourceId, context, fault));
    const without: ScorerOutcome[] = [];
    for (const scored of codeAssessments(pending.code, capture, this.timeMsOf(capture), context)) {
      if ('term' in scored) without.push(scored);
      else assessments.push(scored);
    }
    return joined([{ assessments, without }, this.#outcomeOf(answered, scorers, context)]);
  }

  /** @param scorers that were asked */
  #outcomeOf(
    { verdicts, heldFor, failure }: Answered,
    scorers: readonly JudgeScorer[],
    context: VerdictContext,
  ): CaptureOutcome {
    const byName = new Map(scorers.map((scorer) => [scorer.name, scorer]));
    const assessments = verdicts.flatMap((verdict) => {
      const scorer = byName.get(verdict.scorer);
      byName.delete(verdict.scorer);
      return scorer === undefined ? [] : [verdictAssessment(scorer, verdict, this.#deps.judge.sourceId, context)];
    });
    const reason = heldFor === 'budget' ? undefined : heldFor;
    const open = heldFor === undefined ? [] : [...byName.keys()];
    const held = open.map((scorer): ScorerOutcome => ({ scorer, term: 'heldByBudget', reason }));
    return { assessments, without: held, failure };
  }

  #toJudge({ traceId, capture }: Work, scorers: readonly JudgeScorer[], signal: AbortSignal): Asking {
    const question = this.questionOf({ traceId, capture });
    const isBare = capture.content === 'none';
    const { judge } = this.#deps;
    const ask: Asking['ask'] = (open, money) => judge.judge(capture, open, signal, money);
    return { traceId, question, answers: this.#answers, scorers, isBare, batch: this.batch, ask };
  }

  /** Asks for the missing verdicts. Only one of several captures with the same question asks at a time. */
  async #answered(asking: Asking, signal: AbortSignal): Promise<Answered> {
    const { question } = asking;
    while (this.#asking.has(question)) await this.#asking.get(question);
    const answered = this.#knownOrAsked(asking, signal);
    const ended = answered.catch(() => undefined).then(() => this.#asking.delete(question));
    this.#asking.set(question, ended);
    return answered;
  }

  /** Returns the digest of the question; the trace id if the capture provokes a fault, which the judge meets too. */
  questionOf({ traceId, capture }: Pick<Work, 'traceId' | 'capture'>): string {
    const digest = () => questionOf(this.#deps.judge.sourceId, capture);
    return unlessFaulty(this.timeMsOf(capture), digest, () => traceId);
  }

  /** Returns the digests of the questions to the functions of scorers, none if the capture provokes a fault. */
  functionQuestions(capture: Capture, work: RecordSource, scorers: readonly Scorer[]): string[] {
    const functions = scorers.filter(isFunctionScorer);
    const digests = () => {
      const { digest } = scorerRecord(capture, work);
      return functions.map((scorer) => digest(functionArnOf(scorer)));
    };
    return functions.length === 0 ? [] : unlessFaulty(this.timeMsOf(capture), digests, () => []);
  }

  async #knownOrAsked(asking: Asking, signal: AbortSignal): Promise<Answered> {
    const { traceId, question, answers, scorers } = asking;
    const about = { run: this.#run, traceId };
    const knownOf = (kept: Kept): Verdict[] => knownVerdicts(kept, about, scorers);
    const isEnough = (so: Kept): boolean => knownOf(so).length === scorers.length;
    const kept = await answers.acquire(question, isEnough, signal);
    const known = knownOf(kept);
    const open = scorers.filter(({ name }) => !known.some(({ scorer }) => scorer === name));
    if (open.length === 0) return { verdicts: known };
    const answered = await this.#ask(asking, kept, open);
    return { ...answered, verdicts: [...known, ...answered.verdicts] };
  }

  /**
   * Asks, and stores the answers. Answers that cannot be stored are used, but the attempt fails afterwards.
   *
   * @param open the scorers without a known verdict
   */
  async #ask({ traceId, question, answers, isBare, batch, ask }: Asking, kept: Kept, open: readonly JudgeScorer[]) {
    let isKept = false;
    try {
      // An attempt stores every answer that it has read from a job.
      const isRead = kept.answers.some(({ run }) => run === (kept.job?.run ?? this.#run));
      const from = await batch?.of(question, { ...kept.job, isRead });
      let failure: unknown;
      const known = kept.answers.map(({ verdict }) => verdict);
      const money = { leftOpen: leftToJudge(kept, open), known, ...(from?.money ?? { limit: this.#deps.limit }) };
      const answered = await ask(open, money).catch((error: unknown) => {
        failure = error;
        return answeredBefore(error);
      });
      const result = isBare ? { ...answered, verdicts: answered.verdicts.map(verdictWithoutWords) } : answered;
      const spend = spendBeyond(result.spend, from?.paid);
      addSpend(this.spend, spend);
      // A job answers about the trace that it was given.
      const trace = (from?.paid && kept.job?.trace) ?? traceId;
      if (result.verdicts.length + (result.leftOpen?.length ?? 0) + spend.calls > 0) {
        const now = withResult(kept, result, open, { run: this.#run, trace });
        const keeping = answers.keep(question, now, spend).then(() => {
          isKept = true;
        });
        await keeping.catch((error: unknown) => {
          failure ??= error;
        });
      }
      const whole = result.verdicts.filter(({ scorer }) => open.some(({ name }) => name === scorer));
      const verdicts = trace === traceId ? whole : paidElsewhere(whole);
      const heldFor = failure instanceof JudgeHeld ? failure.heldFor : undefined;
      return { verdicts, heldFor, failure: heldFor === undefined ? failure : undefined };
    } finally {
      // Chunks with the same question would wait until this function has certainly ended.
      if (!isKept) await answers.release?.(question);
    }
  }
}

/** Removes texts for `CONTENT=none`. */
const bareIf = (isBare: boolean, outcome: CaptureOutcome): CaptureOutcome =>
  isBare ? { ...outcome, assessments: outcome.assessments.map(withoutWords) } : outcome;
