/** The replies of the stand-in endpoint: written by rules, in the format that the request asks for. */

import { createHash } from 'node:crypto';
import { isObject } from '../../src/captures/json.ts';
import { jsonIn } from '../../src/core/values/json-in.ts';
import { estimateTokens } from '../../src/judge/tokens.ts';

export interface InferenceRequest {
  contentType: string;
  body: Buffer;
  /** The parsed body when it is a JSON object. */
  json?: Record<string, unknown>;
  stream: boolean;
}

const VOCABULARY =
  'the parcel leaves depot today and reaches your door before noon please keep the receipt for later use'.split(' ');

export function parseRequest(contentType: string, body: Buffer, streamRoute: boolean): InferenceRequest {
  // CSV, an image, or a malformed body gets a reply, too.
  const value = jsonIn(body);
  const json = isObject(value) ? value : undefined;
  return { contentType, body, json, stream: streamRoute || json?.stream === true };
}

/** Returns a number of words that depend on the request alone. */
export function defaultAnswer({ body }: InferenceRequest, words: number): string {
  const digest = createHash('sha256').update(body).digest();
  return Array.from({ length: words }, (_, i) => VOCABULARY[(digest[i % digest.length] ?? 0) % VOCABULARY.length]).join(
    ' ',
  );
}

function usage({ body }: InferenceRequest, answer: string) {
  const prompt = estimateTokens(body.toString());
  const completion = answer === '' ? 0 : answer.split(' ').length;
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
  const common = { model: modelOf(request), usage: usage(request, answer) };
  if (Array.isArray(asked.messages)) {
    const choice = { index: 0, message: { role: 'assistant', content: answer }, finish_reason: 'stop' };
    return json({ id: 'chatcmpl-stand-in', object: 'chat.completion', ...common, choices: [choice] });
  }
  if (asked.prompt !== undefined) {
    const choice = { index: 0, text: answer, finish_reason: 'stop' };
    return json({ object: 'text_completion', ...common, choices: [choice] });
  }
  if (asked.inputs !== undefined) return json({ generated_text: answer });
  if (asked.input !== undefined) {
    const { completion_tokens: _, ...counts } = usage(request, '');
    const data = [{ object: 'embedding', index: 0, embedding: [0.1, 0.2, 0.3] }];
    return json({ object: 'list', data, usage: counts });
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
  const events = words.map((content, i) => {
    const delta = i === 0 ? { role: 'assistant', content } : { content };
    const finish_reason = i === words.length - 1 ? 'stop' : null;
    return event({ ...base, choices: [{ index: 0, delta, finish_reason }] });
  });
  const options = request.json?.stream_options as { include_usage?: boolean } | undefined;
  if (options?.include_usage) events.push(event({ ...base, choices: [], usage: usage(request, answer) }));
  events.push('data: [DONE]\n\n');
  return events;
}
