/**
 * The stand-in judge with the faults and limits of a real model service on a bad day. It counts and records the calls that it gets.
 */
import type { ConverseCommandOutput } from '@aws-sdk/client-bedrock-runtime';
import type { EitherRequest, EitherResponse } from '../../../local/servers/either-http.ts';
import type { Change } from '../../../local/stand-in-judge/answer.ts';
import { answerConverse, type ConverseBody, type ModelCall } from '../../../local/stand-in-judge/converse.ts';
import { type HttpAnswer, serviceError } from '../../../local/stand-in-judge/http-answer.ts';
import {
  type ChatBody,
  chatCompletion,
  foundationModel,
  type IncomingCall,
  modelOfProfile,
  nameIn,
  type Operation,
  type StandInOptions as PlainOptions,
  StandInJudge as PlainStandIn,
} from '../../../local/stand-in-judge/server.ts';
import { readOutput } from '../../../src/judge/transports/bedrock.ts';
import { breakOff } from '../break-off.ts';
import { logRequest } from '../request-log.ts';
import { BatchJobs } from './batch-jobs.ts';
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
import { corrupt } from './corrupt.ts';
import { countCached, type PrefixCache } from './prompt-cache.ts';
import { behindEndpoint, chatError, chatRefusal, converseRefusal } from './refusals.ts';

export type { IncomingCall };

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

/** Reads the token counts of the service that a call was forwarded to. */
function usageIn(operation: Operation, { status, body }: HttpAnswer): ModelCall['usage'] {
  if (operation !== 'converse' || status !== 200) return undefined;
  const { usage } = readOutput(JSON.parse(body) as ConverseCommandOutput);
  const cached = (usage.cacheReadInputTokens ?? 0) + (usage.cacheWriteInputTokens ?? 0);
  return { inputTokens: usage.inputTokens + cached, outputTokens: usage.outputTokens };
}

export interface StandInOptions extends PlainOptions {
  behavior?: BehaviorInput | undefined;
  /** The number of calls kept in `recorded`. Counts have no limit. */
  keepCalls?: number;
}

/** What is recorded of a call whose connection was cut. */
const DROPPED: ModelCall = { asked: [], answer: { status: 0, headers: {}, body: '' } };

/** Tests inspect the kept requests. At 10 KB each this is 10 MB. */
const DEFAULT_KEPT_CALLS = 1000;

const DAY_MS = 24 * 60 * 60 * 1000;

const refused = (answer: HttpAnswer): ModelCall => ({ asked: [], answer });

export class StandInJudge extends PlainStandIn {
  readonly batch = new BatchJobs((modelId, body, fault) => {
    const model = this.model(modelId);
    return this.converse(modelId, body as ConverseBody, model, new Map(), changeBy(fault)).answer;
  });
  /** Connections accepted since the start. */
  connections = 0;
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
  private readonly forwards: boolean;

  constructor({ behavior = {}, keepCalls = DEFAULT_KEPT_CALLS, ...options }: StandInOptions = {}) {
    super(options);
    this.keepCalls = keepCalls;
    this.forwards = options.forward !== undefined;
    this.server.on('connection', () => {
      this.connections += 1;
    });
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

  protected override send(response: EitherResponse, answer: HttpAnswer): void {
    if (answer === DROPPED.answer) breakOff(response);
    else super.send(response, answer);
  }

  protected override route(request: EitherRequest, method: string, path: string, text: string): Promise<HttpAnswer> {
    const { url = '/', headers } = request;
    // A request that is not to AWS has no signature of AWS.
    if (headers.authorization?.startsWith('AWS4-')) {
      const asked = `${path}${new URL(url, 'http://stand-in').search}`;
      logRequest({ method, url: asked, headers, text, length: Buffer.byteLength(text) });
    }
    const [, job] = /^\/model-invocation-job(?:\/(.+))?$/.exec(path) ?? [];
    if (job !== undefined) return Promise.resolve(this.batch.get(decodeURIComponent(job)));
    if (path === '/model-invocation-job') return Promise.resolve(this.batch.create(text));
    return super.route(request, method, path, text);
  }

  protected override describe(resource: string | undefined, id: string): HttpAnswer | undefined {
    const name = resource === 'foundation-models' ? nameIn(id) : id;
    const { state } = this.model(resource === 'inference-profiles' ? modelOfProfile(id) : name);
    const missing = (what: string): HttpAnswer => serviceError(404, 'ResourceNotFoundException', what);
    if (resource === 'inference-profiles' && state === 'missing')
      return missing('The inference profile was not found.');
    const isLookUp = resource === 'foundation-models';
    if (isLookUp || (resource === 'foundation-model-availability' && (state === 'denied' || state === 'missing'))) {
      if (state === 'denied') {
        const message = 'User is not authorized to perform: bedrock:GetFoundationModel';
        return serviceError(403, 'AccessDeniedException', message);
      }
      if (state === 'invalid') {
        return serviceError(400, 'ValidationException', 'The provided model identifier is invalid.');
      }
      if (state === 'missing' || state === 'unlisted') return missing('The model was not found.');
      const endsMs = Date.now() + (state === 'legacy' ? 60 * DAY_MS : -DAY_MS);
      if (state !== 'active') {
        return foundationModel(name, { status: 'LEGACY', endOfLifeTime: new Date(endsMs).toISOString() });
      }
    }
    return super.describe(resource, id);
  }

  protected override async call(call: IncomingCall): Promise<HttpAnswer> {
    const startedAt = Date.now();
    this.counts.calls += 1;
    this.inFlight += 1;
    this.counts.maxInFlight = Math.max(this.counts.maxInFlight, this.inFlight);
    try {
      const { fault, instead } = this.draw(call.operation);
      const result = instead ?? (await this.answer(call, changeBy(fault)));
      this.count(call, result, startedAt);
      return result.answer;
    } finally {
      this.inFlight -= 1;
    }
  }

  /** Draws the call's fault. Every call makes the same draws in the same order, so that one share does not shift another's. */
  private draw(operation: Operation): { fault?: AnswerFault | undefined; instead?: ModelCall } {
    const { behavior } = this;
    const [throttle, error, drop, corrupt] = [this.random(), this.random(), this.random(), this.random()];
    const faulty = this.faultyLeft > 0;
    this.faultyLeft -= 1;
    if (!faulty) return {};
    const tooMany = behavior.maxInFlight !== undefined && this.inFlight > behavior.maxInFlight;
    const tooFast = this.rate !== undefined && !this.rate();
    if (tooMany || tooFast || throttle < behavior.throttleShare) return { instead: this.throttled(operation) };
    if (error < behavior.errorShare) return { instead: this.failed(operation) };
    if (drop < behavior.dropShare) return { instead: DROPPED };
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

  protected override async answer(call: IncomingCall, change?: Change): Promise<ModelCall> {
    const { operation, modelId, body } = call;
    if (this.forwards && operation === 'converse') return super.answer(call, change);
    if (this.behavior.delayMs > 0) await this.wait(this.behavior.delayMs);
    const model = this.model(modelId);
    if (operation === 'converse') return this.converse(modelId, body, model, this.cache, change);
    if (operation === 'chat') return this.chat(body, model, change);
    return behindEndpoint(modelId, model, () => this.chat(body, model, change));
  }

  private converse(
    modelId: string,
    body: ConverseBody,
    model: ModelBehavior,
    cache: PrefixCache,
    change: Change | undefined,
  ): ModelCall {
    const refusal = converseRefusal(body, model);
    if (refusal !== undefined) return refused(refusal);
    const startedAt = Date.now();
    // A model that ignores the schema gives the same answer in its own format.
    const isIgnored = model.jsonSchema === 'ignored' && body.outputConfig?.textFormat !== undefined;
    const { toolChoice: _, ...tools } = body.toolConfig ?? {};
    const asked = model.forcedTool === 'ignored' && body.toolConfig ? { ...body, toolConfig: tools } : body;
    const call = answerConverse(asked, startedAt, isIgnored ? changeBy('fenced') : change);
    return model.caching === 'counted' ? countCached(call, body, modelId, cache, startedAt) : call;
  }

  private chat(body: ChatBody, model: ModelBehavior, change: Change | undefined): ModelCall {
    const refusal = chatRefusal(body, model);
    if (refusal !== undefined) return refused(refusal);
    const isIgnored = model.jsonSchema === 'ignored' && body.response_format !== undefined;
    const { tool_choice: _, ...free } = body;
    return chatCompletion(model.forcedTool === 'ignored' ? free : body, isIgnored ? changeBy('fenced') : change);
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

  private count(
    { text: _, ...call }: IncomingCall,
    { asked, answer: http, usage = usageIn(call.operation, http) }: ModelCall,
    at: number,
  ): void {
    const { counts } = this;
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

const changeBy = (fault: AnswerFault | undefined): Change | undefined => fault && ((answer) => corrupt(answer, fault));

/** Starts a stand-in judge. Call `close()` when done. */
export async function startStandInJudge(options: StandInOptions = {}): Promise<StandInJudge> {
  const standIn = new StandInJudge(options);
  await standIn.listen(options.port);
  return standIn;
}
