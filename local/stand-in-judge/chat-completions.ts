/** OpenAI's chat completions, which self-hosted judges also speak, behind a URL or a SageMaker endpoint. */
import { answerTo, type Change, tokensOf } from './answer.ts';
import type { ModelCall } from './converse.ts';
import { jsonAnswer } from './http-answer.ts';

/** The parts of a chat completion request that the stand-in reads. */
export interface ChatBody {
  model?: string;
  messages?: { role: string; content: string | { type?: string; text?: string }[] }[];
  max_tokens?: number;
  max_completion_tokens?: number;
  temperature?: number;
  response_format?: { type?: string; json_schema?: unknown };
  tools?: { function?: { name?: string } }[];
  tool_choice?: { function?: { name?: string } } | string;
}

const textOf = (body: ChatBody, roles: readonly string[]): string =>
  (body.messages ?? [])
    .filter(({ role }) => roles.includes(role))
    .map(({ content }) => (typeof content === 'string' ? content : content.map((part) => part.text ?? '').join('\n')))
    .join('\n');

const FINISH: Record<string, string> = {
  max_tokens: 'length',
  content_filtered: 'content_filter',
  guardrail_intervened: 'content_filter',
};

/** Returns the texts of a request, and the tokens that they are. */
export function chatInput(body: ChatBody): { system: string; user: string; inputTokens: number } {
  const system = textOf(body, ['system', 'developer']);
  const user = textOf(body, ['user']);
  const form = JSON.stringify(body.response_format ?? body.tools ?? '');
  return { system, user, inputTokens: tokensOf(`${system}\n${user}${form}`) };
}

/** Answers one chat completion request by rule. */
export function chatCompletion(body: ChatBody, change?: Change): ModelCall {
  const { system, user, inputTokens } = chatInput(body);
  const { answer, asked } = answerTo(system, user, body.max_tokens ?? body.max_completion_tokens, change);
  const tool = typeof body.tool_choice === 'object' ? body.tool_choice.function?.name : undefined;
  const given = answer.stopReason === 'max_tokens' ? answer.text : JSON.stringify(answer.object);
  const toolCall = { id: 'call_standin', type: 'function', function: { name: tool, arguments: given } };
  const message =
    tool === undefined
      ? { role: 'assistant', content: answer.text }
      : { role: 'assistant', content: null, tool_calls: [toolCall] };
  const outputTokens = tokensOf(JSON.stringify(message));
  const finish = FINISH[answer.stopReason] ?? (tool === undefined ? 'stop' : 'tool_calls');
  return {
    asked,
    usage: { inputTokens, outputTokens },
    answer: jsonAnswer(200, {
      id: 'chatcmpl-standin',
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model: body.model ?? 'stand-in',
      choices: [{ index: 0, message, finish_reason: finish }],
      usage: { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens + outputTokens },
    }),
  };
}
