/** Gemini, Cohere, AI21 and Ollama, and servers with a form of their own. */
import { isObject, type JsonObject } from '../json.ts';
import { systemMessages } from './anthropic.ts';
import {
  allMessages,
  chatMessages,
  fieldsOf,
  isMessageList,
  objectsIn,
  openAiTools,
  replyMessages,
  textIn,
  textsOf,
  without,
} from './messages.ts';
import { batchOf, flattened, promptsOf, userMessages } from './openai.ts';
import type { Reply, WireFormat } from './types.ts';

const replyOf = (wire: string, format: Reply['format'], replies: Reply['replies'], reasons: unknown[]): Reply => ({
  wire,
  format,
  replies,
  finishReasons: textsOf(reasons),
});

export const gemini: WireFormat = {
  name: 'gemini',
  request(value) {
    if (!isObject(value)) return undefined;
    const { contents } = value;
    const isContents =
      typeof contents === 'string' || isObject(contents) || (Array.isArray(contents) && contents.length > 0);
    if (!isContents) return undefined;
    const system = value.systemInstruction ?? value.system_instruction;
    const config = value.generationConfig ?? value.generation_config;
    const tools = openAiTools(value.tools);
    return {
      wire: 'gemini',
      format: 'messages',
      messages: [
        ...(isObject(system) ? chatMessages({ ...system, role: 'system' }, 'system') : systemMessages(system)),
        ...allMessages(Array.isArray(contents) ? contents : [contents]),
      ],
      ...(tools === undefined ? {} : { tools }),
      parameters: { ...without(value, 'contents', 'tools', 'model'), ...(isObject(config) ? config : {}) },
      jsonRequested: isObject(config) && (config.responseMimeType ?? config.response_mime_type) === 'application/json',
    };
  },
  reply(value) {
    const pages = Array.isArray(value) ? value : [value];
    const candidates = pages.flatMap((page) =>
      isObject(page) && Array.isArray(page.candidates) ? page.candidates : [],
    );
    if (candidates.length === 0 || !candidates.every((item) => isObject(item))) return undefined;
    const list = candidates as JsonObject[];
    if (!list.some((candidate) => isObject(candidate.content) || 'finishReason' in candidate)) return undefined;
    const replies = list.flatMap((candidate) =>
      chatMessages(candidate.content ?? { role: 'model', parts: [] }, 'assistant'),
    );
    return replyOf(
      'gemini',
      'messages',
      replies,
      list.map((candidate) => candidate.finishReason),
    );
  },
  delta({ candidates }) {
    if (!Array.isArray(candidates)) return undefined;
    const parts = objectsIn(candidates).flatMap(({ content }) => objectsIn(fieldsOf(content).parts));
    const texts = (thought: boolean): string =>
      textIn(...parts.map((part) => ((part.thought === true) === thought ? part.text : undefined)));
    return { output: texts(false), reasoning: texts(true), calls: parts.some((part) => isObject(part.functionCall)) };
  },
};

const COHERE_EVENT = /^(?:message|content|tool-call|citation)-(?:start|delta|end)$|^tool-plan-delta$/;

export const cohere: WireFormat = {
  name: 'cohere',
  request(value) {
    if (!isObject(value) || typeof value.message !== 'string') return undefined;
    const history = isMessageList(value.chat_history) ? value.chat_history : [];
    const tools = openAiTools(value.tools);
    return {
      wire: 'cohere',
      format: 'messages',
      messages: [...systemMessages(value.preamble), ...allMessages(history), ...userMessages([value.message])],
      ...(tools === undefined ? {} : { tools }),
      parameters: without(value, 'message', 'chat_history', 'preamble', 'tools', 'model'),
      jsonRequested: isObject(value.response_format) && value.response_format.type === 'json_object',
    };
  },
  reply(value) {
    if (!isObject(value)) return undefined;
    if (isObject(value.message) && typeof value.message.role === 'string' && !('done' in value)) {
      const { content } = value.message;
      const hasBlocks = Array.isArray(content) && !Array.isArray(value.message.tool_calls);
      const messages = hasBlocks ? replyMessages('assistant', content) : chatMessages(value.message, 'assistant');
      return replyOf('cohere', 'messages', messages, [value.finish_reason]);
    }
    if (
      typeof value.text === 'string' &&
      ['generation_id', 'response_id', 'chat_history', 'is_finished'].some((name) => name in value)
    ) {
      const message = {
        role: 'assistant',
        content: value.text,
        ...(Array.isArray(value.tool_calls) ? { tool_calls: value.tool_calls } : {}),
      };
      return replyOf('cohere', 'messages', chatMessages({ ...message, content: [value.text] }, 'assistant'), [
        value.finish_reason,
      ]);
    }
    const { generations } = value;
    if (!Array.isArray(generations) || generations.length === 0) return undefined;
    if (!generations.every((item) => isObject(item) && typeof item.text === 'string')) return undefined;
    const items = generations as JsonObject[];
    const replies = items.map((item) => ({ role: 'assistant', content: item.text as string }));
    return replyOf(
      'cohere',
      'completion',
      replies,
      items.map((item) => item.finish_reason),
    );
  },
  delta({ type, event_type: older, text, delta }) {
    if (typeof older === 'string') {
      const isCall = older === 'tool-calls-generation' || older === 'tool-calls-chunk';
      return { output: older === 'text-generation' ? textIn(text) : '', reasoning: '', calls: isCall };
    }
    if (typeof type !== 'string' || !COHERE_EVENT.test(type)) return undefined;
    const { content, tool_plan: plan } = fieldsOf(fieldsOf(delta).message);
    const { text: said, thinking } = fieldsOf(content);
    const isCall = type === 'tool-call-start' || type === 'tool-call-delta';
    return { output: textIn(said), reasoning: textIn(thinking, plan), calls: isCall };
  },
};

/** AI21's Jurassic: `completions[].data.text`. */
export const ai21: WireFormat = {
  name: 'ai21',
  request: () => undefined,
  reply(value) {
    if (!isObject(value) || !Array.isArray(value.completions) || value.completions.length === 0) return undefined;
    const items = value.completions.filter(isObject);
    const texts = textsOf(items.map((item) => (isObject(item.data) ? item.data.text : undefined)));
    if (texts.length < value.completions.length) return undefined;
    const reasons = items.map((item) => (isObject(item.finishReason) ? item.finishReason.reason : undefined));
    return replyOf(
      'ai21',
      'completion',
      texts.map((content) => ({ role: 'assistant', content })),
      reasons,
    );
  },
};

export const ollama: WireFormat = {
  name: 'ollama',
  request: () => undefined,
  reply(value) {
    if (!isObject(value) || typeof value.done !== 'boolean') return undefined;
    if (isObject(value.message)) {
      return replyOf('ollama', 'chat', chatMessages(value.message, 'assistant'), [value.done_reason]);
    }
    if (typeof value.response !== 'string') return undefined;
    return replyOf('ollama', 'completion', [{ role: 'assistant', content: value.response }], [value.done_reason]);
  },
  delta({ done, message, response, thinking }) {
    if (typeof done !== 'boolean') return undefined;
    const said = fieldsOf(message);
    return {
      output: textIn(response, said.content),
      reasoning: textIn(thinking, said.thinking),
      calls: objectsIn(said.tool_calls).length > 0,
    };
  },
};

/** Names under which home-made servers take a text. */
const REQUEST_NAMES = [
  'input',
  'text_inputs',
  'text_input',
  'text',
  'query',
  'question',
  'user_input',
  'instruction',
  'content',
] as const;
/** Names under which they give one. */
const REPLY_NAMES = [
  'output',
  'outputs',
  'output_text',
  'text_output',
  'answer',
  'response',
  'reply',
  'result',
  'text',
  'content',
  'message',
  'predictions',
] as const;

/** The text, or the list of texts, under the first of the names that has one. */
function textUnder(value: unknown, names: readonly string[]): { name: string; texts: string[] } | undefined {
  if (!isObject(value)) return undefined;
  for (const name of names) {
    const field = value[name];
    if (typeof field === 'string' || (Array.isArray(field) && typeof field[0] === 'string')) {
      const texts = promptsOf(field);
      if (texts !== undefined) return { name, texts };
    }
  }
  return undefined;
}

/** Names under which servers without a dialect of their own send pieces of text. */
export const PIECE_NAMES = ['text', 'outputText', 'generated_text', 'content', 'completion', 'delta', 'token'] as const;

/** A text under one of the usual names, on both sides; on one side alone it says too little to be taken for a talk. */
export const generic: WireFormat = {
  name: 'generic-text',
  request(value) {
    const found = typeof value === 'string' ? { name: '', texts: [value] } : textUnder(value, REQUEST_NAMES);
    if (found === undefined) return undefined;
    return {
      wire: 'generic-text',
      format: 'text-generation',
      messages: userMessages(found.texts),
      parameters: isObject(value) ? flattened(without(value, found.name, 'model')) : {},
      jsonRequested: false,
      ...batchOf(found.texts),
    };
  },
  reply(value) {
    const single = Array.isArray(value) && value.length === 1 ? value[0] : value;
    const found =
      typeof single === 'string'
        ? { texts: [single] }
        : (textUnder(single, REPLY_NAMES) ??
          (Array.isArray(value) && value.length > 1 && value.every((item) => typeof item === 'string')
            ? { texts: value as string[] }
            : undefined));
    if (found === undefined) return undefined;
    const replies = found.texts.map((content) => ({ role: 'assistant', content }));
    return replyOf('generic-text', 'text-generation', replies, [isObject(single) ? single.finish_reason : undefined]);
  },
  delta(event) {
    const name = PIECE_NAMES.find((candidate) => typeof event[candidate] === 'string');
    return name === undefined ? undefined : { output: textIn(event[name]), reasoning: '', calls: false };
  },
};
