/** What a reply says, whatever its wire format: its text, its token usage, its error. */

export interface ReplyContent {
  /** Text of the first choice; empty when the reply has none (tool calls, tabular replies). */
  text: string;
  toolCalls?: unknown[];
  finishReason?: string;
  usage?: { input?: number; output?: number; total?: number };
  /** The reply is an error that came with a status of success. */
  error?: { code?: number; type?: string; message: string };
}

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const count = (value: unknown): number | undefined => (typeof value === 'number' && value >= 0 ? value : undefined);
const string = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

function usageOf(json: Json): ReplyContent['usage'] {
  const { usage, details } = json;
  if (isObject(usage)) {
    const input = count(usage.prompt_tokens) ?? count(usage.input_tokens);
    const output = count(usage.completion_tokens) ?? count(usage.output_tokens);
    const sum = input === undefined && output === undefined ? undefined : (input ?? 0) + (output ?? 0);
    return { input, output, total: count(usage.total_tokens) ?? sum };
  }
  if (isObject(details) && count(details.generated_tokens) !== undefined) {
    const prefill = Array.isArray(details.prefill) && details.prefill.length > 0 ? details.prefill.length : undefined;
    return { input: prefill, output: count(details.generated_tokens) };
  }
  return undefined;
}

function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isObject(part) ? (string(part.text) ?? '') : '')).join('');
}

/** vLLM says `"object": "error"`, others send nothing but an error; a model that talks about errors sends choices. */
function errorOf(json: Json): ReplyContent['error'] {
  const nested = isObject(json.error) ? json.error : undefined;
  const only = Object.keys(json).every((key) =>
    ['error', 'error_type', 'object', 'code', 'message', 'type', 'param'].includes(key),
  );
  if (json.object === 'error' || (only && (nested !== undefined || typeof json.error === 'string'))) {
    const from = nested ?? json;
    return {
      code: count(from.code),
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
  if (Array.isArray(json.content))
    return { text: contentText(json.content), finishReason: string(json.stop_reason), usage };
  const text = string(json.generated_text) ?? string(json.output) ?? '';
  return { text, usage };
}

/** A piece of a streamed reply. `output` is what the model says, `reasoning` what it thinks aloud. */
export interface Delta {
  output: string;
  reasoning: string;
  finishReason?: string;
  usage?: ReplyContent['usage'];
  error?: ReplyContent['error'];
}

const toolText = (calls: unknown): string =>
  Array.isArray(calls)
    ? calls
        .map((call) =>
          isObject(call) && isObject(call.function)
            ? `${string(call.function.name) ?? ''}${string(call.function.arguments) ?? ''}`
            : '',
        )
        .join('')
    : '';

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
      output: (string(delta.content) ?? string(choice.text) ?? '') + toolText(delta.tool_calls),
      reasoning: string(delta.reasoning_content) ?? string(delta.reasoning) ?? '',
      finishReason: string(choice.finish_reason),
      usage,
    };
  }
  if (isObject(value.token)) return { ...none, output: string(value.token.text) ?? '', usage };
  if (Array.isArray(value.outputs))
    return { ...none, output: value.outputs.filter((part) => typeof part === 'string').join(''), usage };
  if (isObject(value.delta)) {
    const { delta } = value;
    return {
      output: string(delta.text) ?? string(delta.partial_json) ?? '',
      reasoning: string(delta.thinking) ?? '',
      usage,
    };
  }
  return { ...none, output: string(value.generated_text) ?? string(value.text) ?? '', usage };
}
