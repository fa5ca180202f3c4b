/** Assesses the captures of a chunk, one at a time: asks the judge, runs the code scorers, and records the outcome. */

import type { JudgeSpend } from '../../contract/receipts.ts';
import type { Capture } from '../../formats/types.ts';
import { answeredBefore, JudgeHeld } from '../../judge/errors.ts';
import type { Verdict } from '../../judge/types.ts';
import type { NewAssessment, StoredTrace } from '../../mlflow/types.ts';
import { ownFault } from '../../shared/own-fault.ts';
import { timeOf } from '../../shared/within-time.ts';
import { addSpend, emptySpend } from '../counts.ts';
import type { AnswerJournal } from './answer-journal.ts';
import { codeAssessments, failedAssessment, type VerdictContext, verdictAssessment } from './assessments.ts';
import type { PendingVerdicts } from './pending-verdicts.ts';
import { recordAssessments } from './record-assessments.ts';
import type { BatchAnswers, EvaluateDependencies } from './types.ts';
import type { VerdictTally } from './verdict-tally.ts';

export interface Work {
  traceId: string;
  /** The ordinal of its range in the chunk. */
  range: number;
  capture: Capture;
  stored: StoredTrace;
  pending: PendingVerdicts;
}

/** The judge’s answers about a capture, from this attempt or an earlier one. */
interface Answered {
  verdicts: Verdict[];
  /** The number of scorers that the budget had no room for. */
  held: number;
  /** The failure of the judge, to be thrown after the verdicts are recorded. */
  failure?: unknown;
}

/** The assessments of a capture, not recorded yet. */
interface Outcome extends Omit<Answered, 'verdicts'> {
  assessments: NewAssessment[];
  notJudgeable: string[];
}

const NOT_ASKED: Answered = { verdicts: [], held: 0 };

export class CaptureAssessor {
  /** The cost of what was asked in this attempt. */
  readonly spend = emptySpend();
  /** Traces that have a verdict, a new one or an older one. */
  readonly evaluated = new Set<string>();
  /** The answers of the chunk’s batch job, if it has one; set before the first capture. */
  batch: BatchAnswers | undefined;
  readonly #run: string;
  readonly #deps: EvaluateDependencies;
  readonly #journal: AnswerJournal;
  readonly #tally: VerdictTally;
  constructor(run: string, deps: EvaluateDependencies, journal: AnswerJournal, tally: VerdictTally) {
    this.#run = run;
    this.#deps = deps;
    this.#journal = journal;
    this.#tally = tally;
  }

  /** @returns the time for the synchronous work on the capture, in milliseconds */
  timeMsOf(capture: Capture): number {
    return this.#deps.timeMs ?? timeOf(capture);
  }

  contextOf({ traceId, pending }: Pick<Work, 'traceId' | 'pending'>): VerdictContext {
    return { traceId, run: this.#run, overrides: pending.overrides };
  }

  /** @returns false when the capture must wait, because another chunk is asking the judge about the same line */
  async assess(work: Work, signal: AbortSignal): Promise<boolean> {
    const outcome = await this.#outcome(work, signal).catch((error: unknown) => this.#failed(work, error));
    if (outcome === 'claimed') return false;
    const { range } = work;
    await this.record(range, work.stored, outcome.assessments);
    for (const reason of outcome.notJudgeable) this.#tally.notJudgeable(range, reason);
    this.#tally.settle(range, 'heldByBudget', outcome.held);
    // The answers before the failure are paid for and kept. The next attempt asks for the rest.
    if (outcome.failure !== undefined) throw outcome.failure;
    return true;
  }

  /** Writes the assessments to MLflow, and counts them. */
  async record(range: number, stored: StoredTrace, all: readonly NewAssessment[]): Promise<void> {
    const { assessments, written, traceMissing } = await recordAssessments(this.#deps.store, stored, all);
    const news = new Set(written);
    for (const assessment of assessments) {
      if (traceMissing) this.#tally.notJudgeable(range, 'traceMissing');
      // An error assessment from an earlier attempt is still a failed verdict.
      else if (news.has(assessment.assessmentId) || assessment.error !== undefined)
        this.#tally.recorded(range, assessment);
      else this.#tally.settle(range, 'alreadyThere');
    }
    if (!traceMissing && assessments.some(({ error }) => error === undefined)) this.evaluated.add(stored.traceId);
  }

  /** An exception that is not a named error comes from the capture: it gets error assessments, and the others continue. */
  #failed(work: Work, error: unknown): Outcome {
    const fault = ownFault(error);
    if (fault === undefined) throw error;
    const { code, judge, failed } = work.pending;
    const assessments = [...code, ...judge, ...failed.map(({ scorer }) => scorer)].map((scorer) =>
      failedAssessment(scorer, this.#deps.judge.sourceId, this.contextOf(work), fault),
    );
    return { assessments, notJudgeable: [], held: 0 };
  }

  async #outcome(work: Work, signal: AbortSignal): Promise<Outcome | 'claimed'> {
    const { capture, pending } = work;
    const { sourceId } = this.#deps.judge;
    const context = this.contextOf(work);
    const answered = pending.judge.length === 0 ? NOT_ASKED : await this.#ask(work, signal);
    if (answered === 'claimed') return 'claimed';
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
    return { assessments, notJudgeable, held: answered.held, failure: answered.failure };
  }

  /** Asks the judge for the verdicts that no attempt has an answer to, and saves the answer first of all. */
  async #ask({ traceId, capture, pending }: Work, signal: AbortSignal): Promise<Answered | 'claimed'> {
    const { judge, limit, answer, paid } = this.batch?.of(traceId) ?? {
      ...this.#deps,
      answer: undefined,
      paid: undefined,
    };
    const taken = await this.#journal.take(traceId, pending.judge, judge.sourceId);
    if (taken.open === undefined) return 'claimed';
    const { open } = taken;
    if (open.length === 0) return { verdicts: taken.verdicts, held: 0 };
    let failure: unknown;
    const { verdicts, spend } = await judge.judge(capture, open, signal, { limit, answer }).catch((error: unknown) => {
      failure = error;
      return answeredBefore(error);
    });
    const spent = spendBeyond(spend, paid);
    addSpend(this.spend, spent);
    const held = failure instanceof JudgeHeld ? open.length - verdicts.length : 0;
    if (failure instanceof JudgeHeld) failure = undefined;
    await this.#journal.keep(traceId, taken, judge.sourceId, verdicts, spent).catch((error: unknown) => {
      // The verdicts may still reach MLflow.
      failure ??= error;
    });
    return { verdicts: [...taken.verdicts, ...verdicts], held, failure };
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
