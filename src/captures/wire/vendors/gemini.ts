/** Reads Google's Gemini. */
import { isObject, type JsonObject } from '../../json.ts';
import { allMessages, chatMessages, openAiTools } from '../messages.ts';
import { type Assembly, fieldsOf, numberOr, objectsIn, type WireFormat, without } from '../wire-format.ts';

const partsOf = (candidate: JsonObject): JsonObject[] => objectsIn(fieldsOf(candidate.content).parts);

/** A blocked prompt has no candidates. */
const isOurs = ({ candidates, promptFeedback }: JsonObject): boolean =>
  Array.isArray(candidates) || typeof fieldsOf(promptFeedback).blockReason === 'string';

export const gemini: WireFormat = {
  name: 'gemini',
  format: 'messages',
  request(body) {
    const { contents } = body;
    const isContents =
      typeof contents === 'string' || isObject(contents) || (Array.isArray(contents) && contents.length > 0);
    if (!isContents) return undefined;
    const config = fieldsOf(body.generationConfig ?? body.generation_config);
    return {
      messages: allMessages(Array.isArray(contents) ? contents : [contents]),
      tools: openAiTools(body.tools),
      parameters: { ...without(body, 'contents', 'tools', 'model'), ...config },
    };
  },
  reply(body) {
    const candidates = objectsIn(body.candidates);
    const { blockReason } = fieldsOf(body.promptFeedback);
    if (candidates.length === 0 && typeof blockReason === 'string')
      return { replies: [{ role: 'assistant', content: '' }], reasons: [blockReason] };
    if (candidates.length === 0 || candidates.length < (body.candidates as unknown[]).length) return undefined;
    if (!candidates.some((candidate) => isObject(candidate.content) || 'finishReason' in candidate)) return undefined;
    return {
      replies: candidates.flatMap(({ content }) => chatMessages(content ?? { role: 'model', parts: [] }, 'assistant')),
      reasons: candidates.map((candidate) => candidate.finishReason),
    };
  },
  listsEvents: true,
  assemble: assembleGemini,
};

function assembleGemini(events: JsonObject[]): Assembly | undefined {
  if (!events.some(isOurs)) return undefined;
  const candidates = new Map<number, { parts: JsonObject[]; finishReason?: unknown }>();
  for (const item of events.flatMap((event) => objectsIn(event.candidates))) {
    const index = numberOr(item.index, 0);
    const candidate = candidates.get(index) ?? { parts: [] };
    candidates.set(index, candidate);
    candidate.finishReason = item.finishReason ?? candidate.finishReason;
    for (const part of partsOf(item)) addPart(candidate.parts, part);
  }
  const assembled = [...candidates].map(([index, { parts, finishReason }]) => ({
    index,
    content: { role: 'model', parts },
    finishReason,
  }));
  const last = (name: string): JsonObject => {
    const value = events.findLast((event) => event[name] != null)?.[name];
    return value === undefined ? {} : { [name]: value };
  };
  return {
    value: { candidates: assembled, ...last('usageMetadata'), ...last('modelVersion'), ...last('promptFeedback') },
    ended: assembled.every((candidate) => candidate.finishReason !== undefined),
  };
}

/** Adds a part. Consecutive texts become one text. */
function addPart(parts: JsonObject[], part: JsonObject): void {
  const before = parts.at(-1);
  if (typeof part.text === 'string' && typeof before?.text === 'string' && part.thought === before.thought) {
    before.text += part.text;
  } else parts.push({ ...part });
}
