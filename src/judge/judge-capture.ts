/**
 * Judges one capture with any model service. Asks all scorers together, keeps the verdicts of a partial answer, asks
 * again only for missing verdicts, and separates errors that a retry can fix from final errors.
 */

import type { Capture } from '../captures/types.ts';
import { PipelineError, wordsIn } from '../core/errors/errors.ts';
import { ownFault } from '../core/process/own-fault.ts';
import { timeOf, type Within, withinTogether } from '../core/process/within-time.ts';
import { many } from '../core/text/figure-text.ts';
import { assessAnswer, finalStop } from './answer/assess-answer.ts';
import { type Asked, type CallerOptions, ModelCaller, type Question } from './calls/model-caller.ts';
import { lowerRung } from './calls/model-capabilities.ts';
import { PaidCaller } from './calls/paid-caller.ts';
import { canceledBeforeCall } from './calls/through-limits.ts';
import { askCanary, canaryCapture } from './canary.ts';
import {
  afterAnswers,
  answeredBefore,
  CallFailure,
  judgingError,
  VERDICT_ERRORS,
  type VerdictProblem,
} from './errors.ts';
import type { Learned } from './models/learned.ts';
import type { PriceOfCall } from './pricing/call-amounts.ts';
import { answerTokens, askSize } from './pricing/request-tokens.ts';
import { MAX_RECORD_TOKENS, type Rung } from './prompt/build-prompt.ts';
import { captureRecord } from './prompt/record.ts';
import { Session } from './session.ts';
import { estimateTokens } from './tokens.ts';
import type { JudgeTransport } from './transports/transport.ts';
import type { Judge, JudgeMoney, JudgeResult, JudgeScorer, ModelAnswer } from './types.ts';

export interface JudgeOptions extends CallerOptions {
  /** Replaces the bound on the answer that follows from the number of scorers. */
  maxTokens?: number | undefined;
  /** Tokens that the model may use for thinking, in addition to the bound. */
  thinkingTokens?: number;
  /** Default: the price is unknown. */
  price?: PriceOfCall;
  /** Maximum number of answers for one set of scorers. Default: the first, and two for missing verdicts. */
  maxAnswers?: number | undefined;
  /** Replaces the time limit for the synchronous work on one capture, in milliseconds. */
  timeMs?: number;
}

const MAX_ANSWERS = 3;

/** If a prompt is too long, the record is halved, down to this. */
const MIN_RECORD_TOKENS = 500;

const BARE_RATIONALE = '(The judge gave a value and no rationale.)';

class CaptureJudge implements Judge {
  readonly sourceId: string;
  private readonly transport: JudgeTransport;
  private readonly caller: ModelCaller;
  private readonly paid: PaidCaller;
  private readonly options: JudgeOptions;
  private readonly learned: Learned;
  private started: Promise<void> | undefined;
  private canary: Promise<void> | undefined;

  constructor(transport: JudgeTransport, options: JudgeOptions) {
    this.sourceId = transport.sourceId;
    this.transport = transport;
    this.caller = new ModelCaller(transport, options);
    this.paid = new PaidCaller(this.caller, options.price);
    this.options = options;
    this.learned = this.caller.learned;
  }

  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null {
    const { properties } = this.options;
    return this.paid.mostUsd(askSize(capture, scorers, { properties, maxTokens: this.maxTokens(scorers.length) }));
  }

  async judge(
    capture: Capture,
    scorers: readonly JudgeScorer[],
    signal?: AbortSignal,
    money: JudgeMoney = {},
  ): Promise<JudgeResult> {
    const session = new Session(scorers, this.paid.price, money);
    if (scorers.length === 0) return session.result();
    const within = withinTogether(this.options.timeMs ?? timeOf(capture));
    try {
      await this.begin(signal);
      const { capabilities } = this.caller;
      const own = answerTokens(scorers.length, this.options);
      await this.judgeAll(capture, scorers, session, within, signal).finally(() =>
        capabilities.leave(!this.learned.isGuess(own) || !capabilities.isConfirmed),
      );
    } catch (error) {
      const message = error instanceof CallFailure ? undefined : ownFault(error);
      if (message === undefined) throw this.asThrown(error, session.result(), signal);
      session.fail(scorers, { code: VERDICT_ERRORS.failed, message });
    }
    return session.result();
  }

  /** Starts from the findings of earlier calls. Waits while the first capture finds out more. */
  private async begin(signal: AbortSignal | undefined): Promise<void> {
    const { capabilities } = this.caller;
    this.started ??= this.learned.ready().then(() => this.learned.refused && capabilities.adopt(this.learned.refused));
    await this.started;
    await capabilities.enter(signal).catch(canceledBeforeCall);
  }

  private async judgeAll(
    capture: Capture,
    scorers: readonly JudgeScorer[],
    session: Session,
    within: Within,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const problems = new Map<string, VerdictProblem>();
    let missing = scorers;
    let growth = 1;
    let rung: Rung = 'json-schema';
    let maxRecordTokens = MAX_RECORD_TOKENS;
    let correction: string | undefined;
    const record = (): string => within('the record', () => captureRecord(capture, maxRecordTokens).text);
    // Halve the record as sent, which may be far below the bound, so that the next prompt is certainly shorter.
    const halve = (): boolean => {
      const tokens = estimateTokens(record());
      maxRecordTokens = Math.max(MIN_RECORD_TOKENS, Math.floor(tokens / 2));
      return tokens > MIN_RECORD_TOKENS;
    };
    let given = session.money.answer;
    const refused = () => (capture === canaryCapture ? this.caller.capabilities.refused : undefined);
    let [length, likelyUsd, paidUsd] = [0, 0, 0];
    let answers = 0;
    while (answers < (this.options.maxAnswers ?? MAX_ANSWERS) && missing.length > 0) {
      const maxTokens = this.maxTokens(missing.length, growth);
      const prompt = { maxRecordTokens, correction };
      const question: Question = { capture, scorers: missing, maxTokens, rung, within, prompt };
      const asked = given === undefined ? await this.ask(question, session, signal) : { answer: given, rung };
      given = undefined;
      if (asked.answer === undefined) {
        const { kind, message: shown } = asked.failure;
        // An assessment may quote its capture.
        const [message = shown] = wordsIn(asked.failure);
        if (kind === 'too-long' && halve()) continue;
        session.fail(missing, { code: VERDICT_ERRORS[kind === 'too-long' ? 'tooLong' : 'rejected'], message });
        return;
      }
      answers += 1;
      const { answer } = asked;
      const stopped = finalStop(answer);
      if (stopped !== undefined) {
        if (refused()) this.learned.answered(answer.usage.outputTokens, [0, 0], refused());
        session.charge(answer.usage, missing);
        session.fail(missing, stopped);
        return;
      }
      const assessed = this.record(answer, missing, session, record);
      this.caller.capabilities.recordForm(asked.rung, assessed.inForm);
      const isCut = answer.stop === 'cut';
      if (isCut) growth *= 2;
      // An answer of a batch job has another price, and teaches no cost.
      if (answers === 1) likelyUsd = asked.likelyUsd ?? 0;
      if (missing.length === scorers.length) length = isCut ? 2 * maxTokens : answer.usage.outputTokens;
      if (answer.stop === 'context') halve();
      // An answer in no recognizable form is asked for again in a looser form.
      if (!assessed.inForm) rung = lowerRung(asked.rung);
      correction = assessed.correction;
      for (const [name, problem] of assessed.problems) problems.set(name, problem);
      const open = missing.filter(({ name }) => assessed.problems.has(name));
      const isLongest = this.maxTokens(missing.length, growth) <= maxTokens;
      // Too low a bound is the price of learning, and not of the next captures.
      if (!isCut || isLongest) paidUsd += this.paid.price(answer.usage) ?? 0;
      // The same bound would cut the same answer again.
      if (isCut && isLongest && open.length === missing.length) break;
      missing = open;
    }
    this.learned.answered(length, [likelyUsd, paidUsd], refused());
    for (const scorer of missing) {
      const { code, message } = problems.get(scorer.name) ?? { code: VERDICT_ERRORS.missing, message: 'not answered' };
      session.fail([scorer], { code, message: `${message} (asked ${many(answers, 'time')})` });
    }
  }

  /** Charges the call and keeps the values of its answer. */
  private record(answer: ModelAnswer, asked: readonly JudgeScorer[], session: Session, record: () => string) {
    const assessed = assessAnswer(answer, asked, record);
    const { readings } = assessed;
    const chars = readings.map((reading) => ('chars' in reading ? reading.chars : 0));
    session.charge(answer.usage, asked, chars);
    asked.forEach((scorer, index) => {
      const reading = readings[index];
      if (reading?.kind === 'verdict') session.answer(scorer, reading.value, reading.rationale);
      // A value without a rationale is asked for again. It is used if no better answer follows.
      if (reading?.kind === 'bare') session.answer(scorer, reading.value, BARE_RATIONALE);
    });
    return assessed;
  }

  private maxTokens(scorers: number, growth = 1): number {
    const own = answerTokens(scorers, this.options);
    return this.options.maxTokens === undefined ? this.learned.bound(own, growth) : own;
  }

  /** Asks, and returns a failure that concerns only this capture. A failure that concerns all captures is thrown. */
  private async ask(question: Question, session: Session, signal: AbortSignal | undefined): Promise<Asked> {
    const { capabilities } = this.caller;
    const isCanary = question.capture === canaryCapture;
    try {
      const asked = await this.paid.ask(question, session, signal);
      const isKept = (this.learned.refused ?? this.learned.table) !== undefined;
      // A refusal concerns this capture alone, unless the model refuses a harmless question too.
      if (capabilities.isGuess && isKept && !isCanary)
        await this.askCanary(question, session, signal).catch(() => undefined);
      return asked;
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      if (error.kind === 'too-long') return { failure: error };
      if (error.kind !== 'rejected') throw error;
      if (isCanary) throw new CallFailure('refused', error.message, { status: error.status, cause: error });
      if (!capabilities.isConfirmed) await this.askCanary(question, session, signal);
      return { failure: error };
    }
  }

  /** Asks a harmless question once for all captures. @throws as `judge`; the next caller then asks again */
  private async askCanary({ scorers }: Question, session: Session, signal: AbortSignal | undefined): Promise<void> {
    const { learned } = this;
    const ask = async (): Promise<void> => {
      const judge = new CaptureJudge(this.transport, { ...this.options, learned, maxAnswers: 1 });
      const charge = ({ spend }: JudgeResult) => spend.calls > 0 && session.charge(spend, scorers);
      await askCanary(judge, scorers, session.money, signal).then(charge, (error: unknown) => {
        charge(answeredBefore(error));
        throw error;
      });
    };
    this.canary ??= learned.askOnce(ask).finally(() => {
      this.canary = undefined;
    });
    await this.canary;
    if (learned.refused !== undefined) this.caller.capabilities.adopt(learned.refused);
  }

  private asThrown(reason: unknown, result: JudgeResult, signal: AbortSignal | undefined): unknown {
    // Held scorers are resumed when the budget has room again: scorers with an error verdict keep it. After other
    // failures, they are asked again.
    const kept = isHeld(reason) ? result.verdicts : result.verdicts.filter(({ outcome }) => outcome === 'verdict');
    const error = reason instanceof CallFailure ? judgingError(reason, this.sourceId, signal) : reason;
    return error instanceof PipelineError ? afterAnswers(error, { ...result, verdicts: kept }) : error;
  }
}

const isHeld = (reason: unknown): boolean =>
  reason instanceof CallFailure && (reason.kind === 'held' || reason.kind === 'day');

/** Returns a judge over a transport. Use one instance per process: it shares the limiter and the model's capabilities. */
export const createJudgeOver = (transport: JudgeTransport, options: JudgeOptions = {}): Judge =>
  new CaptureJudge(transport, options);
