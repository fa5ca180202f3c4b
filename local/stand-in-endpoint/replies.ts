/** The replies of the stand-in endpoint: written by rules, in the format that the request asks for. */

import { createHash } from 'node:crypto';
import { isObject } from '../../src/captures/json.ts';
import { jsonIn } from '../../src/core/values/json-in.ts';

export interface InferenceRequest {
  contentType: string;
  body: Buffer;
  /** The parsed body when it is a JSON object. */
  json?: Record<string, unknown>;
  /** The prompt as text: the last user message, `prompt`, `inputs`, or the body itself. */
  prompt: string;
  stream: boolean;
}

const VOCABULARY =
  'the parcel leaves depot today and reaches your door before noon please keep the receipt for later use'.split(' ');

function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: { text?: unknown }) => (typeof part?.text === 'string' ? part.text : '')).join(' ');
}

function promptOf(json: Record<string, unknown> | undefined, body: Buffer): string {
  if (!json) return body.toString('utf8');
  if (Array.isArray(json.messages)) {
    const users = (json.messages as { role?: string; content?: unknown }[]).filter((m) => m?.role === 'user');
    return contentText(users.at(-1)?.content);
  }
  for (const key of ['prompt', 'inputs', 'input'] as const) {
    const value = json[key];
    if (typeof value === 'string') return value;
    if (Array.isArray(value)) return value.map(String).join(' ');
  }
  return body.toString('utf8');
}

export function parseRequest(contentType: string, body: Buffer, streamRoute: boolean): InferenceRequest {
  // CSV, an image, or a malformed body gets a reply, too.
  const value = jsonIn(body);
  const json = isObject(value) ? value : undefined;
  return { contentType, body, json, prompt: promptOf(json, body), stream: streamRoute || json?.stream === true };
}

/** Returns a number of words that depend on the prompt alone. */
export function defaultAnswer(request: InferenceRequest, words: number): string {
  const digest = createHash('sha256').update(request.prompt).digest();
  return Array.from({ length: words }, (_, i) => VOCABULARY[(digest[i % digest.length] ?? 0) % VOCABULARY.length]).join(
    ' ',
  );
}

/** Four characters per token, the usual rule of thumb. */
const estimateTokens = (text: string): number => Math.max(1, Math.ceil(text.length / 4));

function usage(request: InferenceRequest, answer: string) {
  const prompt = estimateTokens(
    request.json ? JSON.stringify(request.json.messages ?? request.prompt) : request.prompt,
  );
  const completion = answer.split(' ').length;
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

const modelOf = (request: InferenceRequest): string => String(request.json?.model ?? 'stand-in');

/** Returns the complete reply to a request that does not stream. */
export function wholeReply(request: InferenceRequest, answer: string): { contentType: string; body: string } {
  const { json: asked } = request;
  const json = (body: unknown) => ({ contentType: 'application/json', body: JSON.stringify(body) });
  if (!asked) {
    if (request.contentType.startsWith('text/csv')) {
      const rows = request.body
        .toString('utf8')
        .split('\n')
        .filter((row) => row.trim() !== '').length;
      return { contentType: 'text/csv; charset=utf-8', body: '0.5\n'.repeat(rows) || '\n' };
    }
    return json({ label: 'stand-in', bytes: request.body.length });
  }
  if (Array.isArray(asked.messages)) {
    const choice = { index: 0, message: { role: 'assistant', content: answer }, finish_reason: 'stop' };
    return json({
      id: 'chatcmpl-stand-in',
      object: 'chat.completion',
      model: modelOf(request),
      choices: [choice],
      usage: usage(request, answer),
    });
  }
  if (asked.prompt !== undefined) {
    return json({
      object: 'text_completion',
      model: modelOf(request),
      choices: [{ index: 0, text: answer, finish_reason: 'stop' }],
      usage: usage(request, answer),
    });
  }
  if (asked.inputs !== undefined) return json({ generated_text: answer });
  if (asked.input !== undefined) {
    const tokens = estimateTokens(request.prompt);
    return json({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: [0.1, 0.2, 0.3] }],
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    });
  }
  if (Array.isArray(asked.instances)) return json({ predictions: asked.instances.map(() => ({ score: 0.5 })) });
  return json({ output: answer });
}

/** Returns the reply as server-sent events, one per word; the last event ends the stream. */
export function replyEvents(request: InferenceRequest, answer: string): string[] {
  const words = answer.split(' ').map((word, i) => (i === 0 ? word : ` ${word}`));
  const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
  if (request.json?.inputs !== undefined) {
    return words.map((text, i) =>
      event({ index: i, token: { text }, generated_text: i === words.length - 1 ? answer : null }),
    );
  }
  const base = { id: 'chatcmpl-stand-in', object: 'chat.completion.chunk', model: modelOf(request) };
  const events = words.map((content, i) =>
    event({
      ...base,
      choices: [
        {
          index: 0,
          delta: i === 0 ? { role: 'assistant', content } : { content },
          finish_reason: i === words.length - 1 ? 'stop' : null,
        },
      ],
    }),
  );
  const options = request.json?.stream_options as { include_usage?: boolean } | undefined;
  if (options?.include_usage) events.push(event({ ...base, choices: [], usage: usage(request, answer) }));
  events.push('data: [DONE]\n\n');
  return events;
}
