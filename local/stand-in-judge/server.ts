/**
 * The stand-in judge: a server that implements Bedrock's Converse, OpenAI's chat completions and SageMaker's
 * InvokeEndpoint, and gives rule-based verdicts. One port serves HTTP/2 without TLS, which the AWS SDK's Bedrock client
 * uses for an `http:` endpoint, and HTTP/1.1. The first bytes of a connection show which protocol it uses.
 */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type http from 'node:http';
import type net from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import type { STAND_IN_PATH } from '../../src/judge/judge-id.ts';
import { createEitherServer, type EitherRequest, type EitherResponse } from '../servers/either-http.ts';
import { answerTo, type Change, tokensOf } from './answer.ts';
import { answerConverse, type ModelCall } from './converse.ts';
import { createForwarder, type Forwarder, type ForwardTarget } from './forward.ts';
import { type HttpAnswer, jsonAnswer, serviceError } from './http-answer.ts';

export interface StandInOptions {
  /** Default: a free port. */
  port?: number;
  /**
   * A path in its address by which the product recognizes a stand-in. Default: no path, so that it counts as the model.
   */
  path?: typeof STAND_IN_PATH;
  /** Forward calls to the real Bedrock. */
  forward?: ForwardTarget;
}

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

const MODEL_PATH = /^\/model\/([^/]+)\/converse$/;
const RESOURCE_PATH = /^\/(foundation-models|foundation-model-availability|inference-profiles)\/(.+)$/;
const ENDPOINT_PATH = /^\/endpoints\/([^/]+)\/invocations$/;

/** Returns a call's operation and model; `undefined` if the path is not a model call. */
function operationOf(path: string, body: { model?: string }): { operation: Operation; modelId: string } | undefined {
  const bedrock = MODEL_PATH.exec(path);
  if (bedrock) return { operation: 'converse', modelId: decodeURIComponent(bedrock[1] ?? '') };
  const endpoint = ENDPOINT_PATH.exec(path);
  if (endpoint) return { operation: 'endpoint', modelId: decodeURIComponent(endpoint[1] ?? '') };
  return path.endsWith('/chat/completions') ? { operation: 'chat', modelId: body.model ?? '' } : undefined;
}

/** The server of the stand-in judge, for both protocols. */
export class StandInJudge {
  protected readonly server: net.Server;
  readonly #sockets = new Set<Socket>();
  readonly #path: string;
  readonly #forwarder: Forwarder | undefined;
  port = 0;

  constructor({ path, forward }: StandInOptions = {}) {
    this.#path = path ?? '';
    this.#forwarder = forward && createForwarder(forward);
    this.server = createEitherServer((request, response) => void this.#handle(request, response), this.#sockets);
  }

  async listen(port = 0): Promise<void> {
    await once(this.server.listen(port, '127.0.0.1'), 'listening');
    this.port = (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}${this.#path}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await once(this.server.close(), 'close');
  }

  async #handle(request: EitherRequest, response: EitherResponse): Promise<void> {
    try {
      const text = await readText(request);
      const { url = '/', method = 'GET' } = request;
      const { pathname } = new URL(url, 'http://stand-in');
      // A client that signs by itself keeps the host alone.
      const path = pathname.startsWith(this.#path) ? pathname.slice(this.#path.length) : pathname;
      this.send(response, await this.route(request, method, path, text));
    } catch (error) {
      // The client disconnected, or the request is not JSON. The caller gets an error instead of a hanging connection.
      if (response.headersSent || response.writableEnded) return;
      this.send(response, jsonAnswer(500, { message: String(error) }));
    }
  }

  protected send(response: EitherResponse, { status, headers, body }: HttpAnswer): void {
    // HTTP/1.1 and HTTP/2 responses have the same methods, but TypeScript cannot call a union of their overloads.
    const writable = response as http.ServerResponse;
    writable.writeHead(status, { 'x-amzn-requestid': randomUUID(), ...headers });
    writable.end(body);
  }

  /** Returns Bedrock's answer about a model or a profile. */
  protected describe(resource: string | undefined, id: string): HttpAnswer | undefined {
    if (resource === 'foundation-models') return foundationModel(nameIn(id));
    if (resource === 'foundation-model-availability') return modelAvailability(id);
    return resource === 'inference-profiles' ? inferenceProfile(id) : undefined;
  }

  protected async route(request: EitherRequest, method: string, path: string, text: string): Promise<HttpAnswer> {
    const [, resource, name = ''] = RESOURCE_PATH.exec(path) ?? [];
    const known = this.describe(resource, decodeURIComponent(name));
    if (known !== undefined) return known;
    const body = method === 'POST' ? (JSON.parse(text) as { model?: string }) : {};
    const operation = method === 'POST' ? operationOf(path, body) : undefined;
    if (operation === undefined) {
      return serviceError(404, 'UnknownOperationException', `The stand-in judge does not know ${method} ${path}`);
    }
    const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)] as const);
    return this.call({
      ...operation,
      protocol: request.httpVersionMajor === 2 ? 'h2' : 'http/1.1',
      path,
      headers: Object.fromEntries(headers),
      text,
      body,
    });
  }

  protected async call(call: IncomingCall): Promise<HttpAnswer> {
    return (await this.answer(call)).answer;
  }

  protected async answer({ operation, path, text, body }: IncomingCall, change?: Change): Promise<ModelCall> {
    if (operation !== 'converse') return chatCompletion(body, change);
    if (this.#forwarder === undefined) return answerConverse(body, Date.now(), change);
    return { asked: [], answer: await this.#forwarder(path, text) };
  }
}

/**
 * Starts a stand-in judge. Call `close()` when done.
 *
 * @example
 *     const judge = await startStandInJudge();
 *     await judge.close();
 */
export async function startStandInJudge(options: StandInOptions = {}): Promise<StandInJudge> {
  const standIn = new StandInJudge(options);
  await standIn.listen(options.port);
  return standIn;
}

// ------------------------------------------------------------------------------------------------ chat completions
// OpenAI's, which self-hosted judges also speak, behind a URL or a SageMaker endpoint.

/** The parts of a chat completion request that the stand-in reads. */
export interface ChatBody {
  model?: string;
  messages?: { role: string; content: string | { type?: string; text?: string }[] }[];
  max_tokens?: number;
  max_completion_tokens?: number;
  temperature?: number;
  response_format?: { type?: string; json_schema?: unknown };
  tools?: { function?: { name?: string } }[];
  tool_choice?: { function?: { name?: string } } | string;
}

const textOf = (body: ChatBody, roles: readonly string[]): string =>
  (body.messages ?? [])
    .filter(({ role }) => roles.includes(role))
    .map(({ content }) => (typeof content === 'string' ? content : content.map((part) => part.text ?? '').join('\n')))
    .join('\n');

const FINISH: Record<string, string> = {
  max_tokens: 'length',
  content_filtered: 'content_filter',
  guardrail_intervened: 'content_filter',
};

/** Returns the texts of a request, and the tokens that they are. */
export function chatInput(body: ChatBody): { system: string; user: string; inputTokens: number } {
  const system = textOf(body, ['system', 'developer']);
  const user = textOf(body, ['user']);
  const form = JSON.stringify(body.response_format ?? body.tools ?? '');
  return { system, user, inputTokens: tokensOf(`${system}\n${user}${form}`) };
}

/** Answers one chat completion request by rule. */
export function chatCompletion(body: ChatBody, change?: Change): ModelCall {
  const { system, user, inputTokens } = chatInput(body);
  const { answer, asked } = answerTo(system, user, body.max_tokens ?? body.max_completion_tokens, change);
  const tool = typeof body.tool_choice === 'object' ? body.tool_choice.function?.name : undefined;
  const given = answer.stopReason === 'max_tokens' ? answer.text : JSON.stringify(answer.object);
  const toolCall = { id: 'call_standin', type: 'function', function: { name: tool, arguments: given } };
  const message =
    tool === undefined
      ? { role: 'assistant', content: answer.text }
      : { role: 'assistant', content: null, tool_calls: [toolCall] };
  const outputTokens = tokensOf(JSON.stringify(message));
  const finish = FINISH[answer.stopReason] ?? (tool === undefined ? 'stop' : 'tool_calls');
  return {
    asked,
    usage: { inputTokens, outputTokens },
    answer: jsonAnswer(200, {
      id: 'chatcmpl-standin',
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model: body.model ?? 'stand-in',
      choices: [{ index: 0, message, finish_reason: finish }],
      usage: { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens + outputTokens },
    }),
  };
}

// ---------------------------------------------------------------------------------------------------------- models
// Bedrock's GetFoundationModel, its availability and GetInferenceProfile. Every model exists and may be used.

export function foundationModel(modelId: string, lifecycle: object = { status: 'ACTIVE' }): HttpAnswer {
  return jsonAnswer(200, {
    modelDetails: {
      modelArn: `arn:aws:bedrock:us-east-1::foundation-model/${modelId}`,
      modelId,
      modelName: 'Stand-in',
      providerName: 'Stand-in',
      modelLifecycle: lifecycle,
    },
  });
}

const modelAvailability = (modelId: string): HttpAnswer =>
  jsonAnswer(200, {
    modelId,
    agreementAvailability: { status: 'AVAILABLE' },
    authorizationStatus: 'AUTHORIZED',
    entitlementAvailability: 'AVAILABLE',
    regionAvailability: 'AVAILABLE',
  });

/** Returns the name in an id or an ARN. */
export const nameIn = (idOrArn: string): string => idOrArn.slice(idOrArn.lastIndexOf('/') + 1);

/** Returns the model of a cross-region profile: its id follows the first dot. */
export const modelOfProfile = (idOrArn: string): string => nameIn(idOrArn).replace(/^[a-z-]+\./, '');

/** Answers for a cross-region profile. */
function inferenceProfile(idOrArn: string): HttpAnswer {
  const profileId = nameIn(idOrArn);
  const modelId = modelOfProfile(idOrArn);
  return jsonAnswer(200, {
    inferenceProfileId: profileId,
    inferenceProfileArn: `arn:aws:bedrock:us-east-1:000000000000:inference-profile/${profileId}`,
    inferenceProfileName: profileId,
    models: [{ modelArn: `arn:aws:bedrock:us-east-1::foundation-model/${modelId}` }],
    status: 'ACTIVE',
    type: 'SYSTEM_DEFINED',
  });
}
