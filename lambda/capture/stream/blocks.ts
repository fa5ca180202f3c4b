/** Streams of content blocks: Anthropic's messages and Bedrock's Converse. */
import { isObject, type JsonObject, parseJson } from '../json.ts';
import { STREAM_EVENT } from '../wire/anthropic.ts';
import type { Assembly } from './assemble.ts';

/** A tool's input comes as pieces of JSON text; what does not parse in the end stays text. */
function toolInput(pieces: string, fallback: unknown): unknown {
  if (pieces === '') return fallback ?? {};
  const parsed = parseJson(pieces);
  return parsed.ok ? parsed.value : pieces;
}

const inOrder = (blocks: Map<number, JsonObject>): JsonObject[] =>
  [...blocks].sort(([a], [b]) => a - b).map(([, block]) => block);

const append = (block: JsonObject, name: string, piece: unknown): void => {
  if (typeof piece === 'string') block[name] = `${typeof block[name] === 'string' ? block[name] : ''}${piece}`;
};

export function assembleAnthropic(events: JsonObject[]): Assembly | undefined {
  const isOurs = (event: JsonObject): boolean => typeof event.type === 'string' && STREAM_EVENT.test(event.type);
  if (!events.some(isOurs)) return undefined;
  let message: JsonObject = { type: 'message', role: 'assistant' };
  let usage: JsonObject = {};
  let ended = false;
  const blocks = new Map<number, JsonObject>();
  const inputs = new Map<number, string>();
  for (const event of events) {
    const index = typeof event.index === 'number' ? event.index : 0;
    const delta = isObject(event.delta) ? event.delta : {};
    if (event.type === 'message_start' && isObject(event.message)) message = { ...message, ...event.message };
    if (isObject(message.usage)) usage = { ...message.usage, ...usage };
    if (event.type === 'content_block_start' && isObject(event.content_block))
      blocks.set(index, { ...event.content_block });
    if (event.type === 'content_block_delta') {
      const block = blocks.get(index) ?? { type: delta.type === 'input_json_delta' ? 'tool_use' : 'text' };
      blocks.set(index, block);
      append(block, 'text', delta.text);
      append(block, 'thinking', delta.thinking);
      append(block, 'signature', delta.signature);
      if (typeof delta.partial_json === 'string') inputs.set(index, `${inputs.get(index) ?? ''}${delta.partial_json}`);
    }
    if (event.type === 'message_delta') {
      message = { ...message, ...delta };
      if (isObject(event.usage)) usage = { ...usage, ...event.usage };
    }
    if (event.type === 'message_stop') ended = true;
  }
  for (const [index, block] of blocks) {
    if (block.type === 'tool_use') block.input = toolInput(inputs.get(index) ?? '', block.input);
  }
  const withUsage = Object.keys(usage).length > 0 ? { usage } : {};
  return { value: { ...message, content: inOrder(blocks), ...withUsage }, ended };
}

export function assembleConverse(events: JsonObject[]): Assembly | undefined {
  if (!events.some((event) => isObject(event.contentBlockDelta) || isObject(event.messageStart))) return undefined;
  let role = 'assistant';
  let metadata: JsonObject = {};
  let stopReason: unknown;
  const blocks = new Map<number, JsonObject>();
  const inputs = new Map<number, string>();
  for (const event of events) {
    if (isObject(event.messageStart) && typeof event.messageStart.role === 'string') role = event.messageStart.role;
    if (isObject(event.contentBlockStart)) {
      const { contentBlockIndex, start } = event.contentBlockStart;
      if (isObject(start)) blocks.set(Number(contentBlockIndex ?? 0), { ...start });
    }
    if (isObject(event.contentBlockDelta)) {
      const { contentBlockIndex, delta } = event.contentBlockDelta;
      const index = Number(contentBlockIndex ?? 0);
      const block = blocks.get(index) ?? {};
      blocks.set(index, block);
      if (isObject(delta)) {
        append(block, 'text', delta.text);
        if (isObject(delta.reasoningContent)) {
          const reasoning = (block.reasoningContent as JsonObject | undefined) ?? { reasoningText: { text: '' } };
          append(reasoning.reasoningText as JsonObject, 'text', delta.reasoningContent.text);
          block.reasoningContent = reasoning;
        }
        if (isObject(delta.toolUse) && typeof delta.toolUse.input === 'string') {
          inputs.set(index, `${inputs.get(index) ?? ''}${delta.toolUse.input}`);
        }
      }
    }
    if (isObject(event.messageStop)) stopReason = event.messageStop.stopReason;
    if (isObject(event.metadata)) metadata = event.metadata;
  }
  for (const [index, block] of blocks) {
    if (isObject(block.toolUse))
      block.toolUse = { ...block.toolUse, input: toolInput(inputs.get(index) ?? '', undefined) };
  }
  const value: JsonObject = { output: { message: { role, content: inOrder(blocks) } } };
  if (stopReason !== undefined) value.stopReason = stopReason;
  if (isObject(metadata.usage)) value.usage = metadata.usage;
  return { value, ended: stopReason !== undefined };
}
