/** A judge behind an OpenAI-compatible URL: OpenAI itself, vLLM, Ollama, LiteLLM's proxy, and many others. */
import { PermanentError } from '../common/errors.ts';
import { readRetryAfter } from './backoff.ts';
import { chatBody, readChatFailure, readCompletion } from './chat.ts';
import { CallFailure } from './errors.ts';
import { createJudgeOver, type JudgeOptions } from './judge-capture.ts';
import { type JudgeParameters, readParameters, thinkingTokens } from './parameters.ts';
import type { Ask, Told, Transport } from './transport.ts';
import type { Judge } from './types.ts';

/** As for Bedrock: an answer takes seconds, two minutes are for one that waits in a queue. */
const CALL_TIMEOUT_MS = 120_000;

export const OPENAI_BASE_URL = 'https://api.openai.com/v1';

export interface OpenAiJudgeConfig extends JudgeOptions {
  /** With or without `openai:/`. */
  model: string;
  /** Up to and without `/chat/completions`; default OpenAI's own. */
  baseUrl?: string | undefined;
  apiKey?: string | undefined;
  /** Further headers, e.g. of a gateway. */
  headers?: Readonly<Record<string, string>> | undefined;
  parameters?: Readonly<Record<string, unknown>> | undefined;
  fetch?: typeof fetch;
}

class OpenAiTransport implements Transport {
  readonly sourceId: string;
  readonly userSet: ReadonlySet<string>;
  private readonly model: string;
  private readonly url: URL;
  private readonly headers: Record<string, string>;
  private readonly parameters: JudgeParameters;
  private readonly fetch: typeof fetch;

  constructor(config: OpenAiJudgeConfig, parameters: JudgeParameters) {
    this.model = config.model.replace(/^openai:\/+/, '');
    this.sourceId = `openai:/${this.model}`;
    this.url = completionsUrl(config.baseUrl ?? OPENAI_BASE_URL);
    this.headers = {
      'content-type': 'application/json',
      ...(config.apiKey === undefined ? {} : { authorization: `Bearer ${config.apiKey}` }),
      ...config.headers,
    };
    this.parameters = parameters;
    this.userSet = parameters.userSet;
    this.fetch = config.fetch ?? globalThis.fetch;
  }

  async send(ask: Ask, signal?: AbortSignal): Promise<Told> {
    const timeout = AbortSignal.timeout(CALL_TIMEOUT_MS);
    let status: number;
    let text: string;
    let retryAfterMs: number | undefined;
    try {
      const response = await this.fetch(this.url, {
        method: 'POST',
        headers: this.headers,
        body: JSON.stringify(chatBody(ask, this.model, this.parameters)),
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
      status = response.status;
      retryAfterMs = readRetryAfter(response.headers.get('retry-after'));
      text = await response.text();
    } catch (error) {
      if (signal?.aborted) throw new CallFailure('aborted', 'The judging was broken off in a call', { cause: error });
      throw new CallFailure('unavailable', `${this.url.host}: ${reasonOf(error)}`, { cause: error });
    }
    if (status >= 400) throw readChatFailure(status, text, retryAfterMs);
    return readCompletion(text, ask);
  }
}

/** `fetch` says "fetch failed"; what failed is in its cause. */
function reasonOf(error: unknown): string {
  const { message = String(error), cause } = error as { message?: string; cause?: { message?: string; code?: string } };
  const reason = cause?.message || cause?.code;
  return reason ? `${message}: ${reason}` : message;
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
  return createJudgeOver(new OpenAiTransport(config, parameters), {
    thinkingTokens: thinkingTokens(parameters),
    ...(parameters.maxTokens === undefined ? {} : { maxTokens: parameters.maxTokens }),
    ...config,
  });
}
