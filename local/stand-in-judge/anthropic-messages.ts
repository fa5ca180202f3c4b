/**
 * Bedrock's InvokeModel with a Claude model. LiteLLM, and so MLflow's own judges, use it for models that they do not know
 * yet. The request is translated to Converse, and the answer back.
 */
import type { ConverseBody, ModelCall } from './converse.ts';

interface MessagesBody {
  system?: string | { text?: string }[];
  messages?: { role: string; content: string | { text?: string }[] }[];
  max_tokens?: number;
  temperature?: number;
  tools?: { name?: string; input_schema?: unknown }[];
  tool_choice?: { type?: string; name?: string };
  output_format?: { schema?: unknown };
  output_config?: { format?: { schema?: unknown } };
}

const blocks = (content: string | { text?: string }[] | undefined): { text: string }[] =>
  typeof content === 'string' ? [{ text: content }] : (content ?? []).map(({ text }) => ({ text: text ?? '' }));

export function toConverse(body: MessagesBody): ConverseBody {
  const tool = body.tool_choice?.type === 'tool' ? body.tool_choice.name : undefined;
  const format = body.output_config?.format ?? body.output_format;
  return {
    system: body.system === undefined ? undefined : blocks(body.system),
    messages: (body.messages ?? []).map(({ role, content }) => ({ role, content: blocks(content) })),
    inferenceConfig: { maxTokens: body.max_tokens, temperature: body.temperature },
    toolConfig: body.tools && {
      tools: body.tools.map(({ name = '', input_schema }) => ({ toolSpec: { name, inputSchema: input_schema } })),
      toolChoice: tool === undefined ? undefined : { tool: { name: tool } },
    },
    outputConfig: format && { textFormat: { type: 'json_schema', structure: format.schema } },
  };
}

interface ConverseAnswer {
  output: { message: { content: { text?: string; toolUse?: { toolUseId: string; name: string; input: unknown } }[] } };
  stopReason: string;
  usage: { inputTokens: number; outputTokens: number };
}

export function fromConverse(call: ModelCall, modelId: string): ModelCall {
  if (call.answer.status !== 200) return call;
  const { output, stopReason, usage } = JSON.parse(call.answer.body) as ConverseAnswer;
  const content = output.message.content.map(({ text, toolUse }) =>
    toolUse === undefined
      ? { type: 'text', text: text ?? '' }
      : { type: 'tool_use', id: toolUse.toolUseId, name: toolUse.name, input: toolUse.input },
  );
  const message = {
    id: 'msg_standin',
    type: 'message',
    role: 'assistant',
    model: modelId,
    content,
    stop_reason: stopReason,
    stop_sequence: null,
    usage: { input_tokens: usage.inputTokens, output_tokens: usage.outputTokens },
  };
  return { ...call, answer: { ...call.answer, body: JSON.stringify(message) } };
}
