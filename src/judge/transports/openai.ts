/** A judge behind an OpenAI-compatible URL: OpenAI itself, vLLM, Ollama, LiteLLM's proxy, and many others. */

import { type Authorizer, anonymous, secretAuthorizer } from '../../mlflow/auth.ts';
import { isRetryable, PermanentError, toNamedError } from '../../shared/errors.ts';
import { knownWords } from '../../shared/known-words.ts';
import { readRetryAfter } from '../../shared/retry.ts';
import { CallFailure } from '../errors.ts';
import { createJudgeOver, type JudgeOptions } from '../judge-capture.ts';
import type { ModelAnswer } from '../model-answer.ts';
import type { Judge } from '../types.ts';
import { parseApiKey } from './api-key.ts';
import { chatBody, readChatFailure, readCompletion } from './chat.ts';
import { answerBounds, type JudgeParameters, readParameters } from './parameters.ts';
import type { Ask, JudgeTransport } from './transport.ts';

/** As for Bedrock: an answer takes seconds, two minutes are for one that waits in a queue. */
const CALL_TIMEOUT_MS = 120_000;

const OPENAI_BASE_URL = 'https://api.openai.com/v1';

/** A key, or how to load it: it is loaded again when it stops being accepted (rotation). */
export type ApiKey = string | (() => Promise<string>);

interface OpenAiJudgeConfig extends JudgeOptions {
  /** With or without `openai:/`. */
  model: string;
  /** Up to and without `/chat/completions`; default OpenAI's own. */
  baseUrl?: string | undefined;
  apiKey?: ApiKey | undefined;
  /** Further headers, e.g. of a gateway. */
  headers?: Readonly<Record<string, string>> | undefined;
  parameters?: Readonly<Record<string, unknown>> | undefined;
  fetch?: typeof fetch;
}

class OpenAiTransport implements JudgeTransport {
  readonly sourceId: string;
  readonly userSet: ReadonlySet<string>;
  private readonly model: string;
  private readonly url: URL;
  private readonly headers: Record<string, string>;
  private readonly authorizer: Authorizer;
  private readonly parameters: JudgeParameters;
  private readonly fetch: typeof fetch;

  constructor(config: OpenAiJudgeConfig, parameters: JudgeParameters) {
    this.model = config.model.replace(/^openai:\/+/, '');
    this.sourceId = `openai:/${this.model}`;
    this.url = completionsUrl(config.baseUrl ?? OPENAI_BASE_URL);
    this.headers = { 'content-type': 'application/json', ...config.headers };
    this.authorizer = keyAuthorizer(config.apiKey);
    this.parameters = parameters;
    this.userSet = parameters.userSet;
    this.fetch = config.fetch ?? globalThis.fetch;
  }

  async send(ask: Ask, signal?: AbortSignal): Promise<ModelAnswer> {
    const body = JSON.stringify(chatBody(ask, this.model, this.parameters));
    for (let isRenewed = false; ; isRenewed = true) {
      const sent = await this.authorize();
      const { status, text, headers } = await this.post(body, sent, signal);
      if (status < 300) return readCompletion(text, ask);
      if (status < 400) {
        // The key and the prompt are for the server of the settings alone.
        const target = URL.parse(headers.get('location') ?? '')?.origin ?? 'another address';
        throw new CallFailure(
          'refused',
          `${this.url.host} redirects to ${target} (HTTP ${status}): set JUDGE_BASE_URL`,
        );
      }
      const isDenied = status === 401 || status === 403;
      if (isDenied && !isRenewed && (await this.renew(sent))) continue;
      throw readChatFailure(status, text, readRetryAfter(headers.get('retry-after')));
    }
  }

  private authorize(): Promise<Record<string, string>> {
    return this.authorizer.authorize({ method: 'POST', url: this.url, headers: this.headers }).catch(asCallFailure);
  }

  private renew(sent: Record<string, string>): Promise<boolean> {
    return this.authorizer.renew({ status: 401, text: '', errorType: '', sent }).catch(asCallFailure);
  }

  private async post(body: string, headers: Record<string, string>, signal: AbortSignal | undefined) {
    const timeout = AbortSignal.timeout(CALL_TIMEOUT_MS);
    try {
      const response = await this.fetch(this.url, {
        method: 'POST',
        headers,
        body,
        redirect: 'manual',
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (error) {
      if (signal?.aborted) throw new CallFailure('aborted', 'The judging was broken off in a call', { cause: error });
      throw new CallFailure('unavailable', `${this.url.host}: ${reasonOf(error)}`, { cause: error });
    }
  }
}

function keyAuthorizer(key: ApiKey | undefined): Authorizer {
  if (key === undefined) return anonymous;
  if (typeof key === 'string') return secretAuthorizer({ token: parseApiKey(key, 'JUDGE_API_KEY') });
  return secretAuthorizer(async () => ({ token: await key() }));
}

function asCallFailure(error: unknown): never {
  const { message } = toNamedError(error);
  throw new CallFailure(isRetryable(error) ? 'unavailable' : 'refused', message, { cause: error });
}

/** `fetch` says "fetch failed"; what failed is in its cause. */
function reasonOf(error: unknown): string {
  const { message = String(error), cause } = error as { message?: string; cause?: { message?: string; code?: string } };
  const reason = cause?.message || cause?.code;
  return [message, ...(reason ? [reason] : [])].map(knownWords).join(': ');
}

function completionsUrl(baseUrl: string): URL {
  const base = URL.parse(baseUrl);
  if (base === null || (base.protocol !== 'https:' && base.protocol !== 'http:')) {
    throw new PermanentError('InvalidJudge', "The judge's URL is not valid", {
      got: baseUrl,
      expected: 'an http(s) URL',
      where: 'JUDGE_BASE_URL',
    });
  }
  const path = base.pathname.replace(/\/+$/, '');
  base.pathname = path.endsWith('/chat/completions') ? path : `${path}/chat/completions`;
  return base;
}

export function createOpenAiJudge(config: OpenAiJudgeConfig): Judge {
  const parameters = readParameters(config.parameters);
  return createJudgeOver(new OpenAiTransport(config, parameters), { ...answerBounds(parameters), ...config });
}
