/**
 * The stand-in for Bedrock where there is none: a server that speaks Converse (and OpenAI's chat completions, and a
 * SageMaker endpoint's InvokeEndpoint) and gives rule-based verdicts. HTTP/2 without TLS, as the AWS SDK's Bedrock client
 * speaks it to an `http:` endpoint, and HTTP/1.1 for all others, share one port: the first bytes tell them apart.
 */
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import http2 from 'node:http2';
import net, { type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AnswerFault,
  type Behaviour,
  type BehaviourInput,
  behaviourSchema,
  modelBehaviour,
  pseudoRandom,
  rateGate,
} from './behaviour.ts';
import { chatCompletion, chatError } from './chat-completions.ts';
import { converse, type HttpAnswer, type ModelCall, type PrefixCache, serviceError } from './converse.ts';
import { createForwarder, type Forwarder, type ForwardTarget } from './forward.ts';
import { foundationModel, inferenceProfile } from './foundation-models.ts';

/** One request to a model, as it came in and as it was answered. */
export interface RecordedCall {
  at: number;
  protocol: 'h2' | 'http/1.1';
  path: string;
  modelId: string;
  headers: Record<string, string>;
  body: unknown;
  status: number;
  answer: unknown;
  /** Names of the questions that were recognised. */
  asked: string[];
  inputTokens: number;
  outputTokens: number;
}

export interface Counts {
  calls: number;
  answered: number;
  throttled: number;
  refused: number;
  failed: number;
  inputTokens: number;
  outputTokens: number;
  /** Most calls that were being answered at the same time. */
  maxInFlight: number;
}

export interface StandInOptions {
  port?: number;
  host?: string;
  behaviour?: BehaviourInput;
  /** Calls kept for `recorded`; counts go on without end. */
  keepCalls?: number;
  /** Pass Converse calls on to the real Bedrock. */
  forward?: ForwardTarget;
}

/** Requests are kept for tests to look at; at 10 KB each this is 10 MB. */
const DEFAULT_KEPT_CALLS = 1000;
const H2_PREFACE = 'PRI * HTTP/2.0';
const CONTROL = '/_stand-in';

const CONVERSE_PATH = /^\/model\/([^/]+)\/converse$/;
const INVOKE_PATH = /^\/endpoints\/([^/]+)\/invocations$/;

const zeroCounts = (): Counts => ({
  calls: 0,
  answered: 0,
  throttled: 0,
  refused: 0,
  failed: 0,
  inputTokens: 0,
  outputTokens: 0,
  maxInFlight: 0,
});

const jsonAnswer = (status: number, body: unknown): HttpAnswer => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

type Request = http.IncomingMessage | http2.Http2ServerRequest;
type Response = http.ServerResponse | http2.Http2ServerResponse;

export class StandInJudge {
  counts = zeroCounts();
  recorded: RecordedCall[] = [];
  private behaviour: Behaviour;
  private random: () => number;
  private rate: (() => boolean) | undefined;
  private faultyLeft = Infinity;
  private inFlight = 0;
  private readonly cache: PrefixCache = new Map();
  private readonly forwarder: Forwarder | undefined;
  private readonly keepCalls: number;
  private readonly sockets = new Set<Socket>();
  private readonly server: net.Server;

  constructor(options: StandInOptions = {}) {
    this.keepCalls = options.keepCalls ?? DEFAULT_KEPT_CALLS;
    this.forwarder = options.forward && createForwarder(options.forward);
    this.behaviour = behaviourSchema.parse(options.behaviour ?? {});
    this.random = pseudoRandom(this.behaviour.seed);
    this.behave(options.behaviour ?? {});
    const handle = (request: Request, response: Response): void => void this.handle(request, response);
    const h1 = http.createServer(handle);
    const h2 = http2.createServer(handle);
    this.server = net.createServer((socket) => {
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
      socket.on('error', () => socket.destroy());
      socket.once('data', (first: Buffer) => {
        socket.pause();
        socket.unshift(first);
        const isH2 = H2_PREFACE.startsWith(first.toString('latin1').slice(0, H2_PREFACE.length));
        (isH2 ? h2 : h1).emit('connection', socket);
        if (!isH2) socket.resume();
      });
    });
  }

  async listen(port = 0, host = '127.0.0.1'): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen(port, host, resolve);
    });
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Behaves so from now on; what is left out goes back to its default. */
  behave(input: BehaviourInput): void {
    this.behaviour = behaviourSchema.parse(input);
    this.random = pseudoRandom(this.behaviour.seed);
    this.rate = this.behaviour.callsPerSecond === undefined ? undefined : rateGate(this.behaviour.callsPerSecond);
    this.faultyLeft = this.behaviour.faultyCalls ?? Infinity;
  }

  /** Forgets what was counted and kept. */
  forget(): void {
    this.counts = zeroCounts();
    this.recorded = [];
    this.cache.clear();
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private async handle(request: Request, response: Response): Promise<void> {
    try {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString('utf8');
      const url = new URL(request.url ?? '/', 'http://stand-in');
      const answer = url.pathname.startsWith(CONTROL)
        ? this.control(request.method ?? 'GET', url.pathname.slice(CONTROL.length), text)
        : await this.route(request, url.pathname, text);
      if (answer === 'drop') {
        if ('stream' in response) response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
        else response.socket?.destroy();
        return;
      }
      // HTTP/1.1 and HTTP/2 responses have the same methods, but TypeScript cannot call a union of their overloads.
      const writable = response as http.ServerResponse;
      writable.writeHead(answer.status, { 'x-amzn-requestid': randomUUID(), ...answer.headers });
      writable.end(answer.body);
    } catch (error) {
      // The client went away, or a request was not JSON: the caller must see it, not a hanging connection.
      if (!response.headersSent && !response.writableEnded) {
        (response as http.ServerResponse).writeHead(500, { 'content-type': 'application/json' });
        (response as http.ServerResponse).end(JSON.stringify({ message: String(error) }));
      }
    }
  }

  private control(method: string, path: string, text: string): HttpAnswer {
    if (path === '/health')
      return jsonAnswer(200, { ok: true, standIn: 'judge', forwards: this.forwarder !== undefined });
    if (path === '/behaviour' && method === 'PUT') {
      const parsed = behaviourSchema.safeParse(JSON.parse(text));
      if (!parsed.success) return jsonAnswer(400, { message: parsed.error.message });
      this.behave(parsed.data);
      return jsonAnswer(200, this.behaviour);
    }
    if (path === '/behaviour') return jsonAnswer(200, this.behaviour);
    if (path === '/calls' && method === 'DELETE') this.forget();
    if (path === '/calls') return jsonAnswer(200, { ...this.counts, recorded: this.recorded });
    if (path === '/counts') return jsonAnswer(200, this.counts);
    return jsonAnswer(404, {
      message: `not known: ${method} ${CONTROL}${path}; known: health, behaviour, calls, counts`,
    });
  }

  private async route(request: Request, path: string, text: string): Promise<HttpAnswer | 'drop'> {
    const model = /^\/foundation-models\/(.+)$/.exec(path);
    if (model) {
      const id = decodeURIComponent(model[1] ?? '');
      return foundationModel(id, modelBehaviour(this.behaviour, id));
    }
    const profile = /^\/inference-profiles\/(.+)$/.exec(path);
    if (profile) return inferenceProfile(decodeURIComponent(profile[1] ?? ''));
    const converseId = CONVERSE_PATH.exec(path)?.[1];
    const endpoint = INVOKE_PATH.exec(path)?.[1];
    const isChat = endpoint !== undefined || path.endsWith('/chat/completions');
    if (request.method !== 'POST' || (converseId === undefined && !isChat)) {
      return serviceError(
        404,
        'UnknownOperationException',
        `The stand-in judge does not know ${request.method} ${path}`,
      );
    }
    const body = JSON.parse(text) as { model?: string };
    const modelId = decodeURIComponent(converseId ?? endpoint ?? body.model ?? '');
    return this.modelCall({ request, path, text, body, modelId, isChat });
  }

  /** A call to a model: met by what the behaviour says, then answered. */
  private async modelCall(call: {
    request: Request;
    path: string;
    text: string;
    body: object;
    modelId: string;
    isChat: boolean;
  }): Promise<HttpAnswer | 'drop'> {
    const startedAt = Date.now();
    this.counts.calls += 1;
    this.inFlight += 1;
    this.counts.maxInFlight = Math.max(this.counts.maxInFlight, this.inFlight);
    try {
      const { fault, met } = this.draw(call.isChat);
      const result: ModelCall | 'drop' =
        met === undefined
          ? await this.answer(call, fault, startedAt)
          : met === 'drop'
            ? met
            : { asked: [], answer: met };
      this.count(call, result, startedAt);
      return result === 'drop' ? result : result.answer;
    } finally {
      this.inFlight -= 1;
    }
  }

  /** The draws are made in a fixed order for every call, so that one share does not shift another's draws. */
  private draw(isChat: boolean): { fault: AnswerFault | undefined; met: HttpAnswer | 'drop' | undefined } {
    const { behaviour } = this;
    const [throttle, error, drop, spoil] = [this.random(), this.random(), this.random(), this.random()];
    const faulty = this.faultyLeft > 0;
    this.faultyLeft -= 1;
    if (!faulty) return { fault: undefined, met: undefined };
    const tooMany = behaviour.maxInFlight !== undefined && this.inFlight > behaviour.maxInFlight;
    const tooFast = this.rate !== undefined && !this.rate();
    if (tooMany || tooFast || throttle < behaviour.throttleShare)
      return { fault: undefined, met: this.throttled(isChat) };
    if (error < behaviour.errorShare) {
      const message = 'The stand-in was told to fail.';
      const answer = isChat
        ? chatError(behaviour.errorStatus, 'server_error', message)
        : serviceError(behaviour.errorStatus, 'InternalServerException', message);
      return { fault: undefined, met: answer };
    }
    if (drop < behaviour.dropShare) return { fault: undefined, met: 'drop' };
    return {
      fault: behaviour.fault !== undefined && spoil < behaviour.faultShare ? behaviour.fault : undefined,
      met: undefined,
    };
  }

  private throttled(isChat: boolean): HttpAnswer {
    const { retryAfterSeconds } = this.behaviour;
    const answer = isChat
      ? chatError(429, 'rate_limit_exceeded', 'Rate limit reached.')
      : serviceError(429, 'ThrottlingException', 'Too many requests, please wait before trying again.');
    if (retryAfterSeconds !== undefined) answer.headers['retry-after'] = String(retryAfterSeconds);
    return answer;
  }

  private async answer(
    {
      path,
      text,
      body,
      modelId,
      isChat,
    }: { path: string; text: string; body: object; modelId: string; isChat: boolean },
    fault: AnswerFault | undefined,
    startedAt: number,
  ): Promise<ModelCall> {
    if (this.forwarder !== undefined && !isChat) return { asked: [], answer: await this.forwarder(path, text) };
    if (this.behaviour.delayMs > 0) await sleep(this.behaviour.delayMs);
    const model = modelBehaviour(this.behaviour, modelId);
    return isChat ? chatCompletion(body, model, fault) : converse(modelId, body, model, fault, this.cache, startedAt);
  }

  private count(
    { request, path, modelId, body }: { request: Request; path: string; modelId: string; body: object },
    result: ModelCall | 'drop',
    at: number,
  ): void {
    const { counts } = this;
    const status = result === 'drop' ? 0 : result.answer.status;
    const usage = result === 'drop' ? undefined : result.usage;
    if (status === 200) counts.answered += 1;
    else if (status === 429) counts.throttled += 1;
    else if (status >= 400 && status < 500) counts.refused += 1;
    else counts.failed += 1;
    counts.inputTokens += usage?.inputTokens ?? 0;
    counts.outputTokens += usage?.outputTokens ?? 0;
    if (this.keepCalls === 0) return;
    if (this.recorded.length >= this.keepCalls) this.recorded.shift();
    this.recorded.push({
      at,
      protocol: request.httpVersionMajor === 2 ? 'h2' : 'http/1.1',
      path,
      modelId,
      headers: Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
      body,
      status,
      answer: result === 'drop' || result.answer.body === '' ? null : (JSON.parse(result.answer.body) as unknown),
      asked: result === 'drop' ? [] : result.asked,
      inputTokens: usage?.inputTokens ?? 0,
      outputTokens: usage?.outputTokens ?? 0,
    });
  }
}

/** A listening stand-in; `close()` it when done. Without a port, a free one. */
export async function startStandInJudge(options: StandInOptions = {}): Promise<StandInJudge> {
  const standIn = new StandInJudge(options);
  await standIn.listen(options.port, options.host);
  return standIn;
}
