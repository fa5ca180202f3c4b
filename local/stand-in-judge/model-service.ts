/** The model service behind the stand-in's HTTP server: applies the configured faults to each call, answers it and counts it. */
import type { ConverseCommandOutput } from '@aws-sdk/client-bedrock-runtime';
import { readOutput } from '../../src/judge/transports/bedrock.ts';
import {
  type AnswerFault,
  type Behavior,
  type BehaviorInput,
  behaviorSchema,
  type ModelBehavior,
  modelBehavior,
  pseudoRandom,
  rateGate,
} from './behavior.ts';
import { behindEndpoint, chatCompletion, chatError } from './chat-completions.ts';
import { answerConverse, type ModelCall, type PrefixCache } from './converse.ts';
import { createForwarder, type Forwarder, type ForwardTarget } from './forward.ts';
import { type HttpAnswer, serviceError } from './http-answer.ts';

/** `converse` is Bedrock's, `chat` is OpenAI's, `endpoint` is a chat container behind SageMaker. */
export type Operation = 'converse' | 'chat' | 'endpoint';

/** A call to a model as it was received. */
export interface IncomingCall {
  operation: Operation;
  protocol: 'h2' | 'http/1.1';
  path: string;
  modelId: string;
  headers: Record<string, string>;
  text: string;
  body: object;
}

/** A call to a model with its answer. */
export interface RecordedCall extends Omit<IncomingCall, 'text'> {
  at: number;
  /** 0 if the connection was cut. */
  status: number;
  answer: unknown;
  /** Names of the questions that the stand-in recognized. */
  asked: string[];
  inputTokens: number;
  outputTokens: number;
}

const zeroCounts = () => ({
  calls: 0,
  answered: 0,
  throttled: 0,
  refused: 0,
  failed: 0,
  inputTokens: 0,
  outputTokens: 0,
  /** The highest number of calls that were in flight at the same time. */
  maxInFlight: 0,
});

/** Reads the token counts of the real service. */
function usageIn({ status, body }: HttpAnswer): ModelCall['usage'] {
  if (status !== 200) return undefined;
  const { usage } = readOutput(JSON.parse(body) as ConverseCommandOutput);
  const cached = (usage.cacheReadInputTokens ?? 0) + (usage.cacheWriteInputTokens ?? 0);
  return { inputTokens: usage.inputTokens + cached, outputTokens: usage.outputTokens };
}

export interface ModelServiceOptions {
  behavior?: BehaviorInput | undefined;
  /** The number of calls kept in `recorded`. Counts have no limit. */
  keepCalls?: number;
  /** Forward calls to the real Bedrock. */
  forward?: ForwardTarget;
}

/** What is recorded of a call whose connection was cut. */
const DROPPED: ModelCall = { asked: [], answer: { status: 0, headers: {}, body: '' } };

/** Tests inspect the kept requests. At 10 KB each this is 10 MB. */
const DEFAULT_KEPT_CALLS = 1000;

export class ModelService {
  counts = zeroCounts();
  recorded: RecordedCall[] = [];
  behavior: Behavior = behaviorSchema.parse({});
  private random: () => number = pseudoRandom(0);
  private rate: (() => boolean) | undefined;
  private faultyLeft = Infinity;
  private inFlight = 0;
  /** Each releases a call that waits for `delayMs`. */
  private readonly waiting = new Set<() => void>();
  private readonly cache: PrefixCache = new Map();
  private readonly keepCalls: number;
  private readonly forwarder: Forwarder | undefined;

  constructor({ behavior = {}, keepCalls = DEFAULT_KEPT_CALLS, forward }: ModelServiceOptions) {
    this.keepCalls = keepCalls;
    this.forwarder = forward && createForwarder(forward);
    this.behave(behavior);
  }

  /** Sets the behavior; omitted fields return to their defaults. Calls that wait for their answer get it now. */
  behave(input: BehaviorInput): void {
    this.behavior = behaviorSchema.parse(input);
    for (const release of [...this.waiting]) release();
    this.random = pseudoRandom(this.behavior.seed);
    this.rate = this.behavior.callsPerSecond === undefined ? undefined : rateGate(this.behavior.callsPerSecond);
    this.faultyLeft = this.behavior.faultyCalls ?? Infinity;
  }

  /** Clears the counts and the recorded calls. */
  forget(): void {
    this.counts = zeroCounts();
    this.recorded = [];
    this.cache.clear();
  }

  /** @returns `drop` to have the connection cut */
  async call(call: IncomingCall): Promise<HttpAnswer | 'drop'> {
    const startedAt = Date.now();
    this.counts.calls += 1;
    this.inFlight += 1;
    this.counts.maxInFlight = Math.max(this.counts.maxInFlight, this.inFlight);
    try {
      const { fault, instead } = this.draw(call.operation);
      const result = instead ?? (await this.answer(call, fault, startedAt));
      this.count(call, result, startedAt);
      return result === 'drop' ? result : result.answer;
    } finally {
      this.inFlight -= 1;
    }
  }

  /** Draws the call's fault. Every call makes the same draws in the same order, so that one share does not shift another's. */
  private draw(operation: Operation): { fault?: AnswerFault | undefined; instead?: ModelCall | 'drop' } {
    const { behavior } = this;
    const [throttle, error, drop, corrupt] = [this.random(), this.random(), this.random(), this.random()];
    const faulty = this.faultyLeft > 0;
    this.faultyLeft -= 1;
    if (!faulty) return {};
    const tooMany = behavior.maxInFlight !== undefined && this.inFlight > behavior.maxInFlight;
    const tooFast = this.rate !== undefined && !this.rate();
    if (tooMany || tooFast || throttle < behavior.throttleShare) return { instead: this.throttled(operation) };
    if (error < behavior.errorShare) return { instead: this.failed(operation) };
    if (drop < behavior.dropShare) return { instead: 'drop' };
    return { fault: corrupt < behavior.faultShare ? behavior.fault : undefined };
  }

  private throttled(operation: Operation): ModelCall {
    const { retryAfterSeconds } = this.behavior;
    const answer =
      operation === 'chat'
        ? chatError(429, 'rate_limit_exceeded', 'Rate limit reached.')
        : serviceError(429, 'ThrottlingException', 'Too many requests, please wait before trying again.');
    if (retryAfterSeconds !== undefined) answer.headers['retry-after'] = String(retryAfterSeconds);
    return { asked: [], answer };
  }

  private failed(operation: Operation): ModelCall {
    const { errorStatus, errorType } = this.behavior;
    const [error, type] = operation === 'chat' ? [chatError, 'server_error'] : [serviceError, errorType];
    return { asked: [], answer: error(errorStatus, type, 'The stand-in is configured to fail.') };
  }

  protected async answer(call: IncomingCall, fault: AnswerFault | undefined, startedAt: number): Promise<ModelCall> {
    const { operation, modelId, body } = call;
    if (this.forwarder !== undefined && operation === 'converse') {
      const answer = await this.forwarder(call.path, call.text);
      return { asked: [], usage: usageIn(answer), answer };
    }
    if (this.behavior.delayMs > 0) await this.wait(this.behavior.delayMs);
    const model = this.model(modelId);
    if (operation === 'chat') return chatCompletion(body, model, fault);
    if (operation === 'endpoint') return behindEndpoint(modelId, model, () => chatCompletion(body, model, fault));
    return answerConverse(modelId, body, model, fault, this.cache, startedAt);
  }

  protected model(modelId: string): ModelBehavior {
    return modelBehavior(this.behavior, modelId);
  }

  private wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.waiting.delete(end);
        resolve();
      };
      const timer = setTimeout(end, ms).unref();
      this.waiting.add(end);
    });
  }

  private count({ text: _, ...call }: IncomingCall, result: ModelCall | 'drop', at: number): void {
    const { counts } = this;
    const { asked, usage, answer: http } = result === 'drop' ? DROPPED : result;
    const { status } = http;
    const { inputTokens, outputTokens } = usage ?? { inputTokens: 0, outputTokens: 0 };
    if (status === 200) counts.answered += 1;
    else if (status === 429) counts.throttled += 1;
    else if (status >= 400 && status < 500) counts.refused += 1;
    else counts.failed += 1;
    counts.inputTokens += inputTokens;
    counts.outputTokens += outputTokens;
    if (this.keepCalls === 0) return;
    if (this.recorded.length >= this.keepCalls) this.recorded.shift();
    const answer: unknown = JSON.parse(http.body || 'null');
    this.recorded.push({ ...call, at, status, answer, asked, inputTokens, outputTokens });
  }
}
