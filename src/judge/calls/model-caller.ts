/**
 * Asks the model one question until it answers: finds a form of answer that the model supports, waits for a free slot,
 * retries errors that a retry can fix, and stops before the deadline.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Capture } from '../../captures/types.ts';
import { wordsIn } from '../../core/errors/errors.ts';
import { type RetryPolicy, waitAfter } from '../../core/process/retry.ts';
import type { Within } from '../../core/process/within-time.ts';
import type { JudgeLimits } from '../../limits/limits.ts';
import { answerSchema } from '../answer/answer-schema.ts';
import { CallFailure, type Feature } from '../errors.ts';
import { Learned } from '../models/learned.ts';
import type { ModelProperties } from '../models/model-properties.ts';
import { believed, quotaTokens } from '../pricing/call-amounts.ts';
import { buildPrompt, type PromptOptions, type Rung, userText } from '../prompt/build-prompt.ts';
import { estimateTokens, INPUT_MARGIN } from '../tokens.ts';
import type { Ask, JudgeTransport } from '../transports/transport.ts';
import type { CallUsage, JudgeScorer, ModelAnswer } from '../types.ts';
import { AdaptiveLimiter } from './limiter.ts';
import { ModelCapabilities } from './model-capabilities.ts';
import { canceledBeforeCall, throughLimits } from './through-limits.ts';

interface JudgeRetryPolicy extends RetryPolicy {
  /** No attempt starts later than this after the first failure. Step Functions retries the chunk later. */
  forMs: number;
}

/**
 * Waits of up to 0.25, 0.5, 1, 2, 4, 8 and then 15 s, half of that on average. Three minutes have room for some 25
 * attempts: a service that throttles half of all calls then fails one capture in 2^25.
 */
export const JUDGE_RETRY: JudgeRetryPolicy = {
  attempts: 40,
  baseMs: 250,
  capMs: 15_000,
  forMs: 180_000,
  longestRetryAfterMs: 60_000,
};

export interface CallerOptions {
  retry?: Partial<JudgeRetryPolicy>;
  limiter?: AdaptiveLimiter;
  /** Limits that each call must pass, shared by all functions of the stack. Absent: no limits. */
  limits?: JudgeLimits | undefined;
  /** Properties of the model. Absent if unknown. */
  properties?: ModelProperties | undefined;
  /** Findings of earlier calls. Default: the findings of this judge's own calls. */
  learned?: Learned | undefined;
}

export interface Question {
  capture: Capture;
  scorers: readonly JudgeScorer[];
  maxTokens: number;
  /** The strictest rung to use: an earlier answer on a stricter rung was not in its form. */
  rung: Rung;
  /** The time limit that all prompts of the capture share. */
  within: Within;
  prompt: PromptOptions;
}

export interface Answered {
  answer: ModelAnswer;
  rung: Rung;
  /** Estimated cost of the question, in US dollars. Absent if the price is unknown. */
  likelyUsd?: number | null;
}

/** The result of a question: its answer, or a failure that concerns only its capture. */
export type Asked = (Answered & { failure?: never }) | { answer?: never; failure: CallFailure };

/** A model can lack 2 forms of answer and 4 other features. Concurrent calls detect some of them twice. */
const MAX_FINDINGS = 12;

const isRung = (feature: Feature): feature is 'json-schema' | 'tool' => feature === 'json-schema' || feature === 'tool';

function worstCase({ prompt, schema, maxTokens }: Ask, tokens = 1): CallUsage {
  const texts = [prompt.system, userText(prompt), JSON.stringify(schema)];
  const inputTokens = texts.reduce((sum, text) => sum + estimateTokens(text), 0);
  return { inputTokens: Math.ceil(inputTokens * tokens * INPUT_MARGIN), outputTokens: maxTokens };
}

export class ModelCaller {
  readonly capabilities: ModelCapabilities;
  readonly limiter: AdaptiveLimiter;
  readonly learned: Learned;
  readonly properties: ModelProperties | undefined;
  readonly transport: JudgeTransport;
  private readonly limits: JudgeLimits | undefined;
  private readonly retry: JudgeRetryPolicy;

  constructor(transport: JudgeTransport, options: CallerOptions = {}) {
    this.transport = transport;
    this.limits = options.limits;
    this.learned = options.learned ?? new Learned(transport.sourceId);
    this.properties = options.properties;
    this.capabilities = new ModelCapabilities(this.properties);
    this.retry = { ...JUDGE_RETRY, ...options.retry };
    this.limiter = options.limiter ?? new AdaptiveLimiter();
  }

  /**
   * @param lost called before a retry if the failed attempt may have been billed
   * @throws CallFailure of any kind but `unsupported`, or an exception that the capture triggers
   */
  async ask(
    question: Question,
    signal: AbortSignal | undefined,
    lost: (usage: CallUsage) => Promise<void>,
  ): Promise<Answered> {
    let asked = question;
    let startedAt: number | undefined;
    let findings = 0;
    const found = new Set<Feature>();
    for (let attempt = 1; ; ) {
      const { answer, failure, rung } = await this.attempt(asked, signal);
      if (answer !== undefined) return { answer, rung };
      const bound = boundIn(failure, asked.maxTokens);
      if (bound !== undefined || failure.kind === 'unsupported') {
        findings += 1;
        if (findings > MAX_FINDINGS) throw new CallFailure('rejected', failure.message, { cause: failure });
        if (bound === undefined) this.doWithout(failure, rung, found);
        else asked = { ...question, maxTokens: bound };
        continue;
      }
      if (failure.kind !== 'throttled' && failure.kind !== 'unavailable') throw failure;
      startedAt ??= Date.now();
      const wait = waitAfter(this.retry, attempt, failure.retryAfterMs);
      if (wait === undefined || Date.now() + wait - startedAt > this.retry.forMs) throw failure;
      if (failure.usage !== undefined) await lost(failure.usage);
      // After throttling, let the next capture find out which features the model supports. After another failure,
      // waiting would find out nothing.
      this.capabilities.leave(failure.kind !== 'throttled');
      await sleep(wait, undefined, signal && { signal }).catch(() => {
        const facts = { cause: signal?.reason };
        throw new CallFailure('aborted', 'The judging was canceled before a retry', facts);
      });
      attempt += 1;
    }
  }

  private async attempt(question: Question, signal: AbortSignal | undefined): Promise<Asked & { rung: Rung }> {
    const { capabilities } = this;
    let { rung } = question;
    let ask: Ask | undefined;
    const send = (): Promise<ModelAnswer> => {
      // Determined only now, because calls that were ahead may have found that the model refuses a rung.
      rung = capabilities.rungFrom(question.rung);
      ask = {
        prompt: question.within('the prompt', () =>
          buildPrompt(question.capture, question.scorers, rung, question.prompt),
        ),
        schema: answerSchema(question.scorers, rung),
        maxTokens: question.maxTokens,
        supports: (feature) => capabilities.supports(feature),
      };
      return this.send(ask, signal);
    };
    try {
      const answer = await throughLimits({ ...this.retry, limiter: this.limiter, limits: this.limits }, signal, send);
      capabilities.isConfirmed = true;
      return { answer, rung };
    } catch (error) {
      // A transport throws CallFailure, or an error for a key that it cannot read. The capture causes any other error, which is not an outage.
      if (!(error instanceof CallFailure)) throw error;
      if (error.mayBePaid && ask !== undefined) error.usage = worstCase(ask, this.properties?.tokens);
      return { failure: asUnsupported(error, rung, capabilities), rung };
    }
  }

  /**
   * Sends the request when its tokens are available: takes the worst case first, and settles the tokens actually used.
   */
  private async send(ask: Ask, signal: AbortSignal | undefined): Promise<ModelAnswer> {
    const tokens = this.limits?.tokens;
    const most = worstCase(ask, this.properties?.tokens);
    const acquired = most.inputTokens + most.outputTokens;
    await tokens?.acquire(acquired, signal).catch(canceledBeforeCall);
    let used = 0;
    try {
      const answer = await this.transport.send(ask, signal);
      const usage = believed(answer.usage, most);
      used = quotaTokens(this.transport.sourceId, usage);
      return { ...answer, usage };
    } finally {
      tokens?.give(acquired - used);
    }
  }

  /**
   * @param found features that this question was refused for before. If the model names one again, the feature is not
   *   the cause, and the form may be
   */
  private doWithout(failure: CallFailure, rung: Rung, found: Set<Feature>): void {
    const { feature, message } = failure;
    const isForm = feature !== undefined && (isRung(feature) || found.has(feature));
    if (feature === undefined || (isForm && !this.capabilities.refuseRung(rung)))
      throw new CallFailure('rejected', message, { cause: failure });
    if (isForm) return;
    found.add(feature);
    if (this.transport.userSet.has(feature)) {
      const refused = `The model refuses the parameter ${feature} of the settings: ${message}`;
      throw new CallFailure('refused', refused, { cause: failure });
    }
    this.capabilities.refuseFeature(feature);
  }
}

/** Returns the lower bound on the answer that a refusal names, as in `max_tokens: 5080 > 4096, which is the maximum …`. */
function boundIn(failure: CallFailure, sent: number): number | undefined {
  const [text = failure.message] = wordsIn(failure);
  const isAbout = (failure.kind === 'rejected' || failure.kind === 'unsupported') && BOUND.test(text);
  const named = isAbout ? (text.match(/\b\d{2,5}\b/g) ?? []) : [];
  return named.map(Number).find((bound) => bound < sent);
}

const BOUND = /max(?:imum)?[_ ]?(?:output[_ ]|completion[_ ])?tokens\b/i;

/** An unexplained refusal before the model has ever answered in this form is attributed to the form. */
function asUnsupported(failure: CallFailure, rung: Rung, { isConfirmed }: ModelCapabilities): CallFailure {
  if (failure.kind !== 'rejected' || isConfirmed || rung === 'prompt') return failure;
  return new CallFailure('unsupported', failure.message, { feature: rung, status: failure.status, cause: failure });
}
