/**
 * The judging itself, whatever service hosts the model: asks all scorers of a capture at once or one by one, keeps
 * the verdicts of a partial answer and asks again only for the others, and tells what can be tried later from what
 * cannot be had.
 */
import type { Capture } from '../formats/types.ts';
import { PipelineError } from '../shared/errors.ts';
import { ownFault } from '../shared/own-fault.ts';
import { timeOf, type Within, withinTogether } from '../shared/within-time.ts';
import { correctionOf, problemOf, type Reading, readAnswer } from './answer/read-answer.ts';
import { bookable } from './budget/spending-limit.ts';
import { type Answered, type CallerOptions, ModelCaller, type Question } from './calls/model-caller.ts';
import { lowerRung } from './calls/model-capabilities.ts';
import {
  afterAnswers,
  CallFailure,
  JudgeHeld,
  JudgeInterrupted,
  JudgeRefused,
  VERDICT_ERRORS,
  type VerdictErrorCode,
} from './errors.ts';
import type { CallUsage, ModelAnswer } from './model-answer.ts';
import { type AskSize, answerTokens, askSize } from './pricing/ask-size.ts';
import type { PriceOfCall } from './pricing/call-amounts.ts';
import { MAX_RECORD_TOKENS, type Rung } from './prompt/build-prompt.ts';
import { INPUT_MARGIN } from './prompt/tokens.ts';
import { Session } from './session.ts';
import type { JudgeTransport } from './transports/transport.ts';
import type { Judge, JudgeMoney, JudgeResult, JudgeScorer } from './types.ts';

export interface JudgeOptions extends CallerOptions {
  /** `together`: one call for all scorers of a capture; `separate`: one call each. */
  calls?: 'together' | 'separate';
  /** Tokens of captured text in one request at most; longer texts are cut in the middle. */
  maxRecordTokens?: number;
  /** In place of the bound that follows from the number of scorers. */
  maxTokens?: number;
  /** Added to the bound: what the model may think with. */
  thinkingTokens?: number;
  /** Default: no price is known. */
  price?: PriceOfCall;
  /** In place of the time that a capture has, and all prompts made of it. */
  timeMs?: number;
}

/** Answers asked for at most, for one set of scorers: the first, and two for what was missing. */
const MAX_ANSWERS = 3;

/** An answer that was cut gets twice the room, and then four times. */
const MAX_GROWTH = 4;

/** A prompt that was too long is tried with half of the captured text, down to this. */
const MIN_RECORD_TOKENS = 500;

interface Trouble {
  code: VerdictErrorCode;
  message: string;
}

const BARE_RATIONALE = '(The judge gave a value and no rationale.)';

/** What is asked when a refusal may lie in the capture or in the settings: an exchange that no model objects to. */
const canaryCapture: Capture = {
  inferenceTimeMs: 0,
  timeSource: 'inferenceTime',
  format: 'chat',
  conversation: {
    messages: [{ role: 'user', content: 'What is the capital of France?' }],
    replies: [{ role: 'assistant', content: 'Paris is the capital of France.' }],
    parameters: {},
    jsonRequested: false,
    finishReasons: [],
  },
  attributes: {},
  notes: [],
};

class CaptureJudge implements Judge {
  readonly sourceId: string;
  readonly caller: ModelCaller;
  private readonly options: JudgeOptions;
  private readonly price: PriceOfCall;
  private canary: Promise<CallFailure | undefined> | undefined;

  constructor(transport: JudgeTransport, options: JudgeOptions) {
    this.sourceId = transport.sourceId;
    this.caller = new ModelCaller(transport, options);
    this.options = options;
    const price = options.price ?? (() => null);
    this.price = (usage) => {
      const usd = price(usage);
      return usd === null ? null : bookable(usd);
    };
  }

  /** The most that one round of answers can cost; further ones, for answers that could not be used, are reserved by themselves. */
  maxCostUsd(capture: Capture, scorers: readonly JudgeScorer[]): number | null {
    return this.mostUsd(askSize(capture, scorers, this.options));
  }

  private mostUsd({ inputTokens, maxOutputTokens }: AskSize): number | null {
    const input = Math.ceil(inputTokens * INPUT_MARGIN);
    // Writing to the prompt cache can cost more than plain input.
    const plain = this.price({ inputTokens: input, outputTokens: maxOutputTokens });
    const cached = this.price({ inputTokens: 0, outputTokens: maxOutputTokens, cacheWriteInputTokens: input });
    return plain === null || cached === null ? null : Math.max(plain, cached);
  }

  async judge(
    capture: Capture,
    scorers: readonly JudgeScorer[],
    signal?: AbortSignal,
    money: JudgeMoney = {},
  ): Promise<JudgeResult> {
    const session = new Session(scorers, this.price, money);
    const within = withinTogether(this.options.timeMs ?? timeOf(capture));
    const groups =
      this.options.calls === 'separate' ? scorers.map((scorer) => [scorer]) : scorers.length > 0 ? [scorers] : [];
    const ends = await Promise.allSettled(
      groups.map((group) => this.judgeGroup(capture, group, session, within, signal)),
    );
    const failures: unknown[] = [];
    ends.forEach((end, index) => {
      if (end.status === 'fulfilled') return;
      const fault = end.reason instanceof CallFailure ? undefined : ownFault(end.reason);
      if (fault === undefined) failures.push(end.reason);
      else
        session.fail(
          (groups[index] ?? []).filter((scorer) => !session.has(scorer)),
          VERDICT_ERRORS.failed,
          fault,
        );
    });
    // What can be tried again is said before what the budget holds back.
    const failure = failures.find((reason) => !isHeld(reason)) ?? failures[0];
    if (failure !== undefined) throw this.asThrown(failure, session, signal);
    return { verdicts: session.verdicts(), spend: session.spend() };
  }

  private async judgeGroup(
    capture: Capture,
    scorers: readonly JudgeScorer[],
    session: Session,
    within: Within,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const troubles = new Map<string, Trouble>();
    let missing = scorers;
    let growth = 1;
    let rung: Rung = 'json-schema';
    let maxRecordTokens = this.options.maxRecordTokens ?? MAX_RECORD_TOKENS;
    let correction: string | undefined;
    let given = session.money.told;
    for (let answers = 0; answers < MAX_ANSWERS && missing.length > 0; ) {
      const question: Question = {
        capture,
        scorers: missing,
        maxTokens: this.maxTokens(missing.length, growth),
        rung,
        within,
        prompt: { maxRecordTokens, correction },
      };
      const asked = given === undefined ? await this.ask(question, session, signal) : { told: given, rung };
      given = undefined;
      if (asked.told === undefined) {
        if (asked.failure.kind === 'too-long' && maxRecordTokens > MIN_RECORD_TOKENS) {
          maxRecordTokens = Math.max(MIN_RECORD_TOKENS, Math.floor(maxRecordTokens / 2));
          continue;
        }
        const code = asked.failure.kind === 'too-long' ? VERDICT_ERRORS.tooLong : VERDICT_ERRORS.rejected;
        session.fail(missing, code, asked.failure.message);
        return;
      }
      answers += 1;
      const { told } = asked;
      const stopped = finalStop(told);
      if (stopped !== undefined) {
        session.book(told.usage, missing);
        session.fail(missing, stopped.code, stopped.message);
        return;
      }
      const read = this.take(told, missing, session, troubles);
      this.caller.capabilities.noteForm(asked.rung, read.inForm);
      if (told.stop === 'cut') growth = Math.min(MAX_GROWTH, growth * 2);
      if (told.stop === 'context') maxRecordTokens = Math.max(MIN_RECORD_TOKENS, Math.floor(maxRecordTokens / 2));
      // What came out in no form at all is asked for in a looser one.
      if (!read.inForm) rung = lowerRung(asked.rung);
      correction = read.correction;
      missing = read.missing;
    }
    for (const scorer of missing) {
      if (session.has(scorer)) continue;
      const { code, message } = troubles.get(scorer.name) ?? { code: VERDICT_ERRORS.missing, message: 'not answered' };
      session.fail([scorer], code, `${message} (${MAX_ANSWERS} answers asked for)`);
    }
  }

  private maxTokens(scorers: number, growth: number): number {
    return (this.options.maxTokens ?? answerTokens(scorers) * growth) + (this.options.thinkingTokens ?? 0);
  }

  /**
   * Asks when there is money for the most that this question can cost, whatever was paid for others before. An attempt that
   * may have been paid without an answer is booked at the most, and there must be money for the next one.
   */
  private async pay(question: Question, session: Session, signal: AbortSignal | undefined): Promise<Answered> {
    const { capture, scorers, maxTokens, prompt, within } = question;
    const options = { maxTokens, maxRecordTokens: prompt.maxRecordTokens };
    const size = (): AskSize => within('the size of the prompt', () => askSize(capture, scorers, options));
    const reserve = async () => {
      const made = await session.money.limit?.reserve(this.mostUsd(size()) ?? 0);
      if (made === 'held') throw new CallFailure('held', 'The budget leaves no room for the call');
      return made;
    };
    let reservation = await reserve();
    const settle = async (usage: CallUsage | undefined): Promise<void> => {
      const made = reservation;
      reservation = undefined;
      // What cannot be reported now is reported with a later call or when the limit is closed, and a failure is told there.
      await made?.settle(usage === undefined ? 0 : (this.price(usage) ?? 0)).catch(() => {});
    };
    try {
      const answered = await this.caller.ask(question, signal, async (usage) => {
        session.book(usage, scorers);
        await settle(usage);
        reservation = await reserve();
      });
      await settle(answered.told.usage);
      return answered;
    } catch (error) {
      const usage = error instanceof CallFailure ? error.usage : undefined;
      if (usage !== undefined) session.book(usage, scorers);
      await settle(usage);
      throw error;
    }
  }

  /** Asks, and tells a refusal that concerns this capture alone from one that concerns all. */
  private async ask(
    question: Question,
    session: Session,
    signal: AbortSignal | undefined,
  ): Promise<{ told: ModelAnswer; rung: Rung; failure?: never } | { told?: never; failure: CallFailure }> {
    try {
      return await this.pay(question, session, signal);
    } catch (error) {
      if (!(error instanceof CallFailure)) throw error;
      if (error.kind === 'too-long') return { failure: error };
      if (error.kind !== 'rejected') throw error;
      if (!this.caller.capabilities.isConfirmed) {
        this.canary ??= this.sendCanary(question.scorers.slice(0, 1), session, signal);
        const refused = await this.canary;
        if (refused !== undefined) throw refused;
      }
      return { failure: error };
    }
  }

  /** @returns the failure, when even a harmless question is refused */
  private async sendCanary(
    scorers: readonly JudgeScorer[],
    session: Session,
    signal: AbortSignal | undefined,
  ): Promise<CallFailure | undefined> {
    this.caller.capabilities.reset();
    try {
      const question: Question = {
        capture: canaryCapture,
        scorers,
        maxTokens: this.maxTokens(1, 1),
        rung: 'json-schema',
        within: withinTogether(timeOf(canaryCapture)),
        prompt: {},
      };
      const { told } = await this.pay(question, session, signal);
      session.book(told.usage, scorers);
      return undefined;
    } catch (error) {
      // What cannot be told now may be told the next time.
      this.canary = undefined;
      if (!(error instanceof CallFailure) || error.kind !== 'rejected') throw error;
      return new CallFailure('refused', error.message, { status: error.status, cause: error });
    }
  }

  /** Books the call and keeps the verdicts of its answer. */
  private take(
    told: ModelAnswer,
    asked: readonly JudgeScorer[],
    session: Session,
    troubles: Map<string, Trouble>,
  ): { missing: JudgeScorer[]; inForm: boolean; correction: string } {
    const read = readAnswer(told, asked);
    const readings = asked.map((scorer) => (read.readable ? read.byScorer.get(scorer.name) : undefined));
    session.book(
      told.usage,
      asked,
      readings.map((reading) => (reading && 'chars' in reading ? reading.chars : 0)),
    );
    if (!read.readable) {
      const { code, problem, inForm } = unreadable(told, read.problem);
      for (const { name } of asked)
        troubles.set(name, { code, message: `The judge's answer could not be read: ${problem}` });
      return { missing: [...asked], inForm, correction: problem };
    }
    const missing: JudgeScorer[] = [];
    const problems: string[] = [];
    asked.forEach((scorer, index) => {
      const reading = readings[index] ?? { kind: 'missing' };
      if (reading.kind === 'verdict') {
        session.answer(scorer, reading.value, reading.rationale);
        return;
      }
      // A value without a reason is better than none, if none with a reason comes.
      if (reading.kind === 'bare') session.answer(scorer, reading.value, BARE_RATIONALE);
      missing.push(scorer);
      problems.push(correctionOf(scorer, reading));
      troubles.set(scorer.name, troubleOf(scorer, reading, told));
    });
    return { missing, inForm: true, correction: problems.join('; ') };
  }

  private asThrown(reason: unknown, session: Session, signal: AbortSignal | undefined): unknown {
    const verdicts = session.verdicts().filter(({ outcome }) => outcome === 'verdict');
    if (!(reason instanceof CallFailure)) {
      return reason instanceof PipelineError ? afterAnswers(reason, { verdicts, spend: session.spend() }) : reason;
    }
    const state = { spend: session.spend(), verdicts, cause: reason, retryAfterMs: reason.retryAfterMs };
    const facts = { got: reason.message, where: this.sourceId };
    switch (reason.kind) {
      case 'throttled':
        return new JudgeInterrupted('JudgeThrottled', 'The judge throttled every attempt', facts, state);
      case 'expired':
        return new JudgeInterrupted('CredentialsExpired', "The judge's credentials have expired", facts, state);
      case 'aborted':
        return new JudgeInterrupted('ChunkOutOfTime', 'The judging was broken off', facts, {
          ...state,
          cause: signal?.reason ?? reason,
        });
      case 'held':
        // What has ended, with an error too, is not to be asked again when there is money.
        return new JudgeHeld(facts, { ...state, verdicts: session.verdicts() });
      case 'refused':
      case 'rejected':
        return new JudgeRefused('The judge takes no request with these settings', facts, state);
      default:
        return new JudgeInterrupted('JudgeUnavailable', 'The judge could not be reached or failed', facts, state);
    }
  }
}

const isHeld = (reason: unknown): boolean => reason instanceof CallFailure && reason.kind === 'held';

/** Ends that the same question would meet again. */
function finalStop({ stop, stopReason, text }: ModelAnswer): Trouble | undefined {
  const said = text.trim() === '' ? '' : `: ${text.trim().slice(0, 200)}`;
  if (stop === 'guardrail')
    return { code: VERDICT_ERRORS.guardrail, message: `A guardrail intervened (${stopReason})${said}` };
  if (stop === 'filtered')
    return { code: VERDICT_ERRORS.filtered, message: `The judge's content filter intervened (${stopReason})${said}` };
  return undefined;
}

/** @returns `inForm`: the answer kept to its form, as far as it went. */
function unreadable(
  { stop }: ModelAnswer,
  problem: string,
): { code: VerdictErrorCode; problem: string; inForm: boolean } {
  if (stop === 'cut')
    return { code: VERDICT_ERRORS.cut, problem: 'it was cut off at its bound of tokens', inForm: true };
  if (stop === 'context')
    return { code: VERDICT_ERRORS.tooLong, problem: 'the record filled the context window', inForm: true };
  return { code: VERDICT_ERRORS.unreadable, problem, inForm: false };
}

function troubleOf(scorer: JudgeScorer, reading: Reading, told: ModelAnswer): Trouble {
  const message = problemOf(scorer, reading);
  if (reading.kind === 'value') return { code: VERDICT_ERRORS.value, message };
  return { code: told.stop === 'cut' ? VERDICT_ERRORS.cut : VERDICT_ERRORS.missing, message };
}

/** A judge over a transport. One instance serves a whole process: its limiter and what it has learnt are shared. */
export const createJudgeOver = (transport: JudgeTransport, options: JudgeOptions = {}): Judge =>
  new CaptureJudge(transport, options);
