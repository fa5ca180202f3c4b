/** Streams of other servers: TGI and LMI tokens, OpenAI Responses, Gemini, Cohere, Ollama, and bare texts. */
import { isObject, type JsonObject } from '../json.ts';
import { PIECE_NAMES } from '../wire/vendors.ts';
import type { Assembly } from './assemble.ts';

const last = (events: JsonObject[], name: string): unknown => events.findLast((event) => event[name] != null)?.[name];

/** TGI's events and LMI's lines: a token each, the whole text with the last one. */
export function assembleTgi(events: JsonObject[]): Assembly | undefined {
  if (!events.some((event) => isObject(event.token))) return undefined;
  let text = '';
  for (const event of events) {
    if (!isObject(event.token) || event.token.special === true) continue;
    if (typeof event.token.text === 'string') text += event.token.text;
  }
  const whole = last(events, 'generated_text');
  const details = last(events, 'details');
  const value: JsonObject = { generated_text: typeof whole === 'string' ? whole : text };
  if (isObject(details)) value.details = details;
  return { value, ended: typeof whole === 'string' || isObject(details) };
}

/** OpenAI's Responses: the last event holds the whole response, unless the stream was cut before it. */
export function assembleResponses(events: JsonObject[]): Assembly | undefined {
  const ours = events.filter((event) => typeof event.type === 'string' && event.type.startsWith('response.'));
  if (ours.length === 0) return undefined;
  const final = ours.findLast(
    (event) => /^response\.(?:completed|incomplete|failed)$/.test(event.type as string) && isObject(event.response),
  );
  if (final !== undefined) return { value: final.response as JsonObject, ended: true };
  const begun = ours.find((event) => isObject(event.response))?.response as JsonObject | undefined;
  const items = ours.filter((event) => event.type === 'response.output_item.done').map((event) => event.item);
  const texts = new Map<unknown, string>();
  for (const event of ours) {
    if (event.type !== 'response.output_text.delta' || typeof event.delta !== 'string') continue;
    texts.set(event.item_id, `${texts.get(event.item_id) ?? ''}${event.delta}`);
  }
  for (const item of items) if (isObject(item)) texts.delete(item.id);
  const unfinished = [...texts.values()].map((text) => ({
    type: 'message',
    role: 'assistant',
    content: [{ type: 'output_text', text }],
  }));
  return { value: { ...begun, object: 'response', output: [...items, ...unfinished] }, ended: false };
}

export function assembleGemini(events: JsonObject[]): Assembly | undefined {
  const ours = events.filter((event) => Array.isArray(event.candidates));
  if (ours.length === 0) return undefined;
  const candidates = new Map<number, { parts: JsonObject[]; finishReason?: unknown }>();
  for (const event of ours) {
    for (const item of (event.candidates as unknown[]).filter(isObject)) {
      const index = typeof item.index === 'number' ? item.index : 0;
      const candidate: { parts: JsonObject[]; finishReason?: unknown } = candidates.get(index) ?? { parts: [] };
      candidates.set(index, candidate);
      if (item.finishReason !== undefined) candidate.finishReason = item.finishReason;
      const parts =
        isObject(item.content) && Array.isArray(item.content.parts) ? item.content.parts.filter(isObject) : [];
      for (const part of parts) addPart(candidate.parts, part);
    }
  }
  const assembled = [...candidates].map(([index, { parts, finishReason }]) => ({
    index,
    content: { role: 'model', parts },
    ...(finishReason === undefined ? {} : { finishReason }),
  }));
  const value: JsonObject = { candidates: assembled };
  const usage = last(events, 'usageMetadata');
  if (usage !== undefined) value.usageMetadata = usage;
  const model = last(events, 'modelVersion');
  if (model !== undefined) value.modelVersion = model;
  return { value, ended: assembled.every((candidate) => 'finishReason' in candidate) };
}

/** Texts that follow each other are one text. */
function addPart(parts: JsonObject[], part: JsonObject): void {
  const before = parts.at(-1);
  if (typeof part.text === 'string' && typeof before?.text === 'string' && part.thought === before.thought) {
    before.text += part.text;
  } else parts.push({ ...part });
}

/** Cohere: `type` in version 2, `event_type` in version 1. */
export function assembleCohere(events: JsonObject[]): Assembly | undefined {
  if (events.some((event) => event.event_type === 'text-generation')) {
    const end = events.find((event) => event.event_type === 'stream-end');
    const text = events.map((event) =>
      event.event_type === 'text-generation' && typeof event.text === 'string' ? event.text : '',
    );
    const response = isObject(end?.response) ? end.response : {};
    return { value: { text: text.join(''), ...response }, ended: end !== undefined };
  }
  if (!events.some((event) => event.type === 'content-delta' || event.type === 'message-end')) return undefined;
  let text = '';
  for (const event of events) {
    const content = isObject(event.delta) && isObject(event.delta.message) ? event.delta.message.content : undefined;
    if (event.type === 'content-delta' && isObject(content) && typeof content.text === 'string') text += content.text;
  }
  const end = events.find((event) => event.type === 'message-end');
  const delta = isObject(end?.delta) ? end.delta : {};
  return {
    value: { message: { role: 'assistant', content: [{ type: 'text', text }] }, ...delta },
    ended: end !== undefined,
  };
}

export function assembleOllama(events: JsonObject[]): Assembly | undefined {
  if (!events.every((event) => typeof event.done === 'boolean')) return undefined;
  const end = events.findLast((event) => event.done === true);
  const final = { ...(end ?? events.at(-1)) };
  if (events.some((event) => isObject(event.message))) {
    let content = '';
    const calls: unknown[] = [];
    for (const { message } of events) {
      if (!isObject(message)) continue;
      if (typeof message.content === 'string') content += message.content;
      if (Array.isArray(message.tool_calls)) calls.push(...message.tool_calls);
    }
    const message = { role: 'assistant', content, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
    return { value: { ...final, message }, ended: end !== undefined };
  }
  if (!events.some((event) => typeof event.response === 'string')) return undefined;
  const response = events.map((event) => (typeof event.response === 'string' ? event.response : '')).join('');
  return { value: { ...final, response }, ended: end !== undefined };
}

/** Fields that tell the end; before it they are null or false, if they are there. */
const END_NAMES = ['stop', 'completionReason', 'finish_reason', 'stop_reason', 'is_finished', 'sequence_end'] as const;

/** Events that each hold a piece of text under the same name. At least two, or one with nothing else in it. */
export function assembleText(events: JsonObject[]): Assembly | undefined {
  const name = PIECE_NAMES.find((candidate) => typeof events[0]?.[candidate] === 'string');
  if (name === undefined || events.length < 2) return undefined;
  // Records that have much else beside the text are rows of data, not pieces of a stream.
  const isPiece = (event: JsonObject): boolean => typeof event[name] === 'string' && Object.keys(event).length <= 4;
  const pieces = events.filter(isPiece);
  if (pieces.length < events.length - 1) return undefined;
  const stopped = events.at(-1);
  const tells = events.some((event) => END_NAMES.some((end) => end in event));
  const ended = tells ? END_NAMES.some((end) => stopped?.[end] != null && stopped[end] !== false) : undefined;
  return { value: { ...stopped, generated_text: pieces.map((event) => event[name]).join('') }, ended };
}
