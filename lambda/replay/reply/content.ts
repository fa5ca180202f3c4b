/** What a reply says, whatever its wire format: its text, its token usage, its error. */
import { parseJson } from '../json.ts';

/** Tokens as the server counted them. */
export interface Usage {
  input?: number;
  output?: number;
  total?: number;
  /** Of the output, what the model thought and did not say. */
  reasoning?: number;
}

export interface ReplyContent {
  /** Text of the first choice; empty when the reply has none (tool calls, tabular replies). */
  text: string;
  toolCalls?: unknown[];
  finishReason?: string;
  usage?: Usage;
  /** The reply is an error that came with a status of success. */
  error?: { code?: number; type?: string; message: string };
}

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** More tokens than a reply can have; sums of so many are still exact. */
const MAX_NUMBER = 1e9;

/** A number of tokens, or another whole one, if it can be that: not all that a target says is believed. */
export const wholeNumber = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_NUMBER ? value : undefined;

const string = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

function usageOf(json: Json): Usage | undefined {
  const { details } = json;
  // Anthropic's streams begin with the input's tokens, inside the message that is to come.
  const usage = isObject(json.message) && json.type === 'message_start' ? json.message.usage : json.usage;
  if (isObject(usage)) {
    const input = wholeNumber(usage.prompt_tokens) ?? wholeNumber(usage.input_tokens);
    const output = wholeNumber(usage.completion_tokens) ?? wholeNumber(usage.output_tokens);
    const sum = input === undefined && output === undefined ? undefined : (input ?? 0) + (output ?? 0);
    const parts = usage.completion_tokens_details ?? usage.output_tokens_details;
    const reasoning = isObject(parts) ? wholeNumber(parts.reasoning_tokens) : undefined;
    return {
      input,
      output,
      total: wholeNumber(usage.total_tokens) ?? sum,
      ...(reasoning === undefined ? {} : { reasoning }),
    };
  }
  if (isObject(details) && wholeNumber(details.generated_tokens) !== undefined) {
    const prefill = Array.isArray(details.prefill) && details.prefill.length > 0 ? details.prefill.length : undefined;
    return { input: prefill, output: wholeNumber(details.generated_tokens) };
  }
  return undefined;
}

/** What a server-sent event named `error` says, whatever its form. */
export function errorOfEvent(data: string): NonNullable<ReplyContent['error']> {
  try {
    const value = parseJson(data);
    if (isObject(value))
      return errorOf({ error: value.error ?? value.message ?? data, ...value, object: 'error' }) ?? { message: data };
  } catch {
    // A text says it as well.
  }
  return { message: data };
}

function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isObject(part) ? (string(part.text) ?? '') : '')).join('');
}

/** Keys that stand beside an error; others belong to a reply that is more than one. */
const BESIDE_ERRORS = new Set([
  ...['error', 'error_type', 'error_code', 'object', 'code', 'message', 'type', 'param', 'detail', 'details'],
  ...['id', 'request_id', 'status', 'status_code', 'timestamp', 'created', 'model', 'path'],
]);

/** vLLM says `"object": "error"`, others send nothing but an error; a model that talks about errors sends choices. */
function errorOf(json: Json): ReplyContent['error'] {
  const nested = isObject(json.error) ? json.error : undefined;
  const only = Object.keys(json).every((key) => BESIDE_ERRORS.has(key));
  if (json.object === 'error' || (only && (nested !== undefined || typeof json.error === 'string'))) {
    const from = nested ?? json;
    return {
      code: wholeNumber(from.code),
      type: string(from.type) ?? string(json.error_type),
      message: string(from.message) ?? string(json.error) ?? JSON.stringify(json),
    };
  }
  return undefined;
}

/** Content of a whole reply. */
export function contentOfJson(value: unknown): ReplyContent {
  const json = Array.isArray(value) ? value.flat(2)[0] : value;
  if (!isObject(json)) return { text: typeof json === 'string' ? json : '' };
  const error = errorOf(json);
  if (error) return { text: '', error };
  const usage = usageOf(json);
  const choice = Array.isArray(json.choices) ? (json.choices[0] as unknown) : undefined;
  if (isObject(choice)) {
    const finishReason = string(choice.finish_reason);
    if (isObject(choice.message)) {
      const { message } = choice;
      const toolCalls = Array.isArray(message.tool_calls) ? message.tool_calls : undefined;
      return { text: contentText(message.content), toolCalls, finishReason, usage };
    }
    return { text: string(choice.text) ?? '', finishReason, usage };
  }
  if (Array.isArray(json.content)) {
    const toolCalls = json.content.flatMap((part) =>
      isObject(part) && part.type === 'tool_use'
        ? [toolCall(part.id, string(part.name), JSON.stringify(part.input ?? {}))]
        : [],
    );
    return {
      text: contentText(json.content),
      ...(toolCalls.length > 0 ? { toolCalls } : {}),
      finishReason: string(json.stop_reason),
      usage,
    };
  }
  const text = string(json.generated_text) ?? string(json.output) ?? '';
  return { text, usage };
}

/** A call of a tool in OpenAI's form, as all are held. */
export interface ToolCall {
  id?: unknown;
  type: 'function';
  function: { name: string; arguments: string };
}

const toolCall = (id: unknown, name = '', given = ''): ToolCall => ({
  ...(id === undefined ? {} : { id }),
  type: 'function',
  function: { name, arguments: given },
});

/** A part of a call: its beginning, or more of its arguments. */
export interface ToolCallPiece {
  index: number;
  id?: unknown;
  name?: string;
  arguments?: string;
}

/** A piece of a streamed reply. `output` is what the model says, `reasoning` what it thinks aloud. */
export interface Delta {
  output: string;
  reasoning: string;
  toolCalls?: ToolCallPiece[];
  finishReason?: string;
  usage?: Usage;
  error?: ReplyContent['error'];
}

const toolPieces = (calls: unknown): ToolCallPiece[] | undefined =>
  Array.isArray(calls)
    ? calls.flatMap((call, at) => {
        if (!isObject(call)) return [];
        const { name, arguments: given } = isObject(call.function) ? call.function : {};
        return [
          {
            index: wholeNumber(call.index) ?? at,
            id: call.id ?? undefined,
            name: string(name),
            arguments: string(given),
          },
        ];
      })
    : undefined;

/** Puts the pieces of calls together, by their index: Anthropic's counts the texts between the calls too. */
export function joinToolCalls(calls: Map<number, ToolCall>, pieces: readonly ToolCallPiece[]): void {
  for (const { index, id, name, arguments: given } of pieces) {
    const call = calls.get(index);
    if (call) {
      call.id ??= id;
      call.function.name ||= name ?? '';
      call.function.arguments += given ?? '';
    } else {
      calls.set(index, toolCall(id, name, given));
    }
  }
}

/** Content of one event of a stream: OpenAI's chunks, TGI's and LMI's tokens, Anthropic's deltas. */
export function deltaOf(value: unknown): Delta {
  const none: Delta = { output: '', reasoning: '' };
  if (typeof value === 'string') return { ...none, output: value };
  if (!isObject(value)) return none;
  const error = errorOf(value);
  if (error) return { ...none, error };
  const usage = usageOf(value);
  const choice = Array.isArray(value.choices) ? (value.choices[0] as unknown) : undefined;
  if (isObject(choice)) {
    const delta = isObject(choice.delta) ? choice.delta : {};
    return {
      output: string(delta.content) ?? string(choice.text) ?? '',
      reasoning: string(delta.reasoning_content) ?? string(delta.reasoning) ?? '',
      toolCalls: toolPieces(delta.tool_calls),
      finishReason: string(choice.finish_reason),
      usage,
    };
  }
  if (isObject(value.token)) return { ...none, output: string(value.token.text) ?? '', usage };
  if (Array.isArray(value.outputs))
    return { ...none, output: value.outputs.filter((part) => typeof part === 'string').join(''), usage };
  if (value.type === 'content_block_start' && isObject(value.content_block)) {
    const { type, id, name, text } = value.content_block;
    if (type === 'tool_use')
      return { ...none, toolCalls: [{ index: wholeNumber(value.index) ?? 0, id, name: string(name) }], usage };
    return { ...none, output: string(text) ?? '', usage };
  }
  if (isObject(value.delta)) {
    const { delta } = value;
    const given = string(delta.partial_json);
    return {
      output: string(delta.text) ?? '',
      reasoning: string(delta.thinking) ?? '',
      ...(given === undefined ? {} : { toolCalls: [{ index: wholeNumber(value.index) ?? 0, arguments: given }] }),
      finishReason: string(delta.stop_reason),
      usage,
    };
  }
  return { ...none, output: string(value.generated_text) ?? string(value.text) ?? '', usage };
}
