/** OpenAI's chat completions, which self-hosted judges also speak, behind a URL or a SageMaker endpoint. */
import { answerTo, tokensOf } from './answer.ts';
import type { AnswerFault, ModelBehavior } from './behavior.ts';
import type { ModelCall } from './converse.ts';
import { type HttpAnswer, jsonAnswer, serviceError } from './http-answer.ts';

/** The parts of a chat completion request that the stand-in reads. */
interface ChatBody {
  model?: string;
  messages?: { role: string; content: string | { type?: string; text?: string }[] }[];
  max_tokens?: number;
  max_completion_tokens?: number;
  temperature?: number;
  response_format?: { type?: string; json_schema?: unknown };
  tools?: { function?: { name?: string } }[];
  tool_choice?: { function?: { name?: string } } | string;
}

/** An error in the form OpenAI-compatible servers use. */
export const chatError = (status: number, code: string, message: string): HttpAnswer =>
  jsonAnswer(status, {
    error: { message, type: status === 429 ? 'rate_limit_error' : 'invalid_request_error', param: null, code },
  });

function refusal(body: ChatBody, model: ModelBehavior): HttpAnswer | undefined {
  if (model.state === 'denied') return chatError(401, 'invalid_api_key', 'Incorrect API key provided.');
  if (model.state !== 'active')
    return chatError(
      404,
      'model_not_found',
      `The model \`${body.model}\` does not exist or you do not have access to it.`,
    );
  const unsupported = (message: string): HttpAnswer => chatError(400, 'unsupported_value', message);
  if (model.jsonSchema === 'rejected' && body.response_format)
    return unsupported("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.");
  if (model.forcedTool === 'rejected' && body.tool_choice)
    return unsupported("Unsupported value: 'tool_choice' does not support a named function with this model.");
  if (model.temperature === 'rejected' && body.temperature !== undefined)
    return unsupported(
      "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
    );
  return undefined;
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

/** Answers one chat completion request by rule. */
export function chatCompletion(body: ChatBody, model: ModelBehavior, fault: AnswerFault | undefined): ModelCall {
  const refused = refusal(body, model);
  if (refused !== undefined) return { asked: [], answer: refused };
  const system = textOf(body, ['system', 'developer']);
  const user = textOf(body, ['user']);
  const inputTokens = tokensOf(`${system}\n${user}${JSON.stringify(body.response_format ?? body.tools ?? '')}`);
  if (model.maxInputTokens !== undefined && inputTokens > model.maxInputTokens) {
    const message = `This model's maximum context length is ${model.maxInputTokens} tokens. However, your messages resulted in ${inputTokens} tokens.`;
    return { asked: [], answer: chatError(400, 'context_length_exceeded', message) };
  }
  const { answer, asked } = answerTo(system, user, fault, body.max_tokens ?? body.max_completion_tokens);
  const tool = typeof body.tool_choice === 'object' ? body.tool_choice.function?.name : undefined;
  const useTool = tool !== undefined && model.forcedTool !== 'ignored';
  const text =
    model.jsonSchema === 'ignored' && body.response_format ? answerTo(system, user, 'fenced').answer.text : answer.text;
  const toolCall = {
    id: 'call_standin',
    type: 'function',
    function: { name: tool, arguments: fault === 'cut' ? answer.text : JSON.stringify(answer.object) },
  };
  const message = useTool
    ? { role: 'assistant', content: null, tool_calls: [toolCall] }
    : { role: 'assistant', content: text };
  const outputTokens = tokensOf(JSON.stringify(message));
  return {
    asked,
    usage: { inputTokens, outputTokens },
    answer: jsonAnswer(200, {
      id: 'chatcmpl-standin',
      object: 'chat.completion',
      created: Math.floor(Date.now() / 1000),
      model: body.model ?? 'stand-in',
      choices: [{ index: 0, message, finish_reason: FINISH[answer.stopReason] ?? (useTool ? 'tool_calls' : 'stop') }],
      usage: { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens + outputTokens },
    }),
  };
}

/** Returns a container's answer as SageMaker passes it on: an error of the container arrives as a ModelError. */
export function behindEndpoint(endpoint: string, model: ModelBehavior, answer: () => ModelCall): ModelCall {
  if (model.state === 'denied') {
    const message = `User is not authorized to perform: sagemaker:InvokeEndpoint on resource: endpoint/${endpoint}`;
    return { asked: [], answer: serviceError(403, 'AccessDeniedException', message) };
  }
  if (model.state !== 'active') {
    const message = `Endpoint ${endpoint} of account 000000000000 not found.`;
    return { asked: [], answer: serviceError(400, 'ValidationError', message) };
  }
  const call = answer();
  const { status, body } = call.answer;
  if (status === 200) return call;
  const wrapped = {
    ErrorCode: status < 500 ? 'CLIENT_ERROR_FROM_MODEL' : 'SERVER_ERROR_FROM_MODEL',
    Message: `Received ${status < 500 ? 'client' : 'server'} error (${status}) from primary with message "${body}".`,
    OriginalMessage: body,
    OriginalStatusCode: status,
  };
  return { ...call, answer: jsonAnswer(424, wrapped, { 'x-amzn-errortype': 'ModelError' }) };
}
