/** A judge behind an OpenAI-compatible URL: OpenAI itself, vLLM, Ollama, the LiteLLM proxy, and many others. */

import { isRetryable, PermanentError, saidBy } from '../../core/errors/errors.ts';
import { readRetryAfter } from '../../core/process/retry.ts';
import { type Authorizer, anonymous, secretAuthorizer } from '../../mlflow/auth.ts';
import { CallFailure } from '../errors.ts';
import { judgeName } from '../judge-id.ts';
import type { JudgeParameters } from '../parameters.ts';
import { parseApiKey } from './api-key.ts';
import { chatBody, readChatFailure, readCompletion } from './chat.ts';
import { CALL_TIMEOUT_MS, type JudgeTransport } from './transport.ts';

const OPENAI_BASE_URL = 'https://api.openai.com/v1';

/** A key, or a function that loads it. It is loaded again when the server stops accepting it (rotation). */
type ApiKey = string | (() => Promise<string>);

interface OpenAiConfig {
  /** The model's name, without `openai:/`. */
  model: string;
  /** Up to and without `/chat/completions`. Default: OpenAI's own. */
  baseUrl?: string | undefined;
  apiKey?: ApiKey | undefined;
  parameters: JudgeParameters;
  fetch?: typeof fetch | undefined;
}

/**
 * A judge behind an OpenAI-compatible URL: OpenAI itself, vLLM, Ollama, the LiteLLM proxy, and many others.
 *
 * @throws PermanentError `InvalidJudge` for an invalid URL, `JudgeSecretUnreadable` for an invalid key
 */
export function openAiTransport({ model, baseUrl, apiKey, parameters, fetch = globalThis.fetch }: OpenAiConfig) {
  const url = completionsUrl(baseUrl ?? OPENAI_BASE_URL);
  const authorizer = keyAuthorizer(apiKey);

  async function post(body: string, headers: Record<string, string>, signal: AbortSignal | undefined) {
    const timeout = AbortSignal.timeout(CALL_TIMEOUT_MS);
    const either = signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
    try {
      const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal: either });
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (error) {
      if (signal?.aborted) throw new CallFailure('aborted', 'The judging was canceled in a call', { cause: error });
      throw new CallFailure('unavailable', `${url.host}: ${saidBy(error)}`, { cause: error });
    }
  }

  const transport: JudgeTransport = {
    sourceId: judgeName(`openai:/${model}`),
    userSet: parameters.userSet,
    async send(ask, signal) {
      const body = JSON.stringify(chatBody(ask, model, parameters));
      const headers = { 'content-type': 'application/json' };
      for (let isRenewed = false; ; isRenewed = true) {
        const sent = await authorizer.authorize({ method: 'POST', url, headers }).catch(asCallFailure);
        const answer = await post(body, sent, signal);
        const { status, text } = answer;
        if (status < 300) return readCompletion(text, ask);
        if (status < 400) {
          // The key and the prompt must not reach a server other than the configured one.
          const target = URL.parse(answer.headers.get('location') ?? '')?.origin ?? 'another address';
          throw new CallFailure('refused', `${url.host} redirects to ${target} (HTTP ${status}): set JUDGE_BASE_URL`);
        }
        const isDenied = status === 401 || status === 403;
        const renew = () => authorizer.renew({ status: 401, text: '', errorType: '', sent }).catch(asCallFailure);
        if (isDenied && !isRenewed && (await renew())) continue;
        throw readChatFailure(status, text, readRetryAfter(answer.headers.get('retry-after')));
      }
    },
  };
  return transport;
}

function keyAuthorizer(key: ApiKey | undefined): Authorizer {
  if (key === undefined) return anonymous;
  if (typeof key === 'string') return secretAuthorizer({ token: parseApiKey(key, 'JUDGE_API_KEY') });
  return secretAuthorizer(async () => ({ token: await key() }));
}

function asCallFailure(error: unknown): never {
  // A key that cannot be read keeps its own name.
  if (error instanceof PermanentError) throw error;
  throw new CallFailure(isRetryable(error) ? 'unavailable' : 'refused', saidBy(error), { cause: error });
}

function completionsUrl(baseUrl: string): URL {
  const base = URL.parse(baseUrl);
  if (base === null || (base.protocol !== 'https:' && base.protocol !== 'http:')) {
    const facts = { got: baseUrl, expected: 'an http(s) URL', where: 'JUDGE_BASE_URL' };
    throw new PermanentError('InvalidJudge', 'The judge’s URL is invalid', facts);
  }
  const path = base.pathname.replace(/\/+$/, '');
  base.pathname = path.endsWith('/chat/completions') ? path : `${path}/chat/completions`;
  return base;
}
