/** How model services refuse calls: Bedrock's Converse, chat completion servers, and SageMaker in front of them. */
import { tokensOf } from '../../../local/stand-in-judge/answer.ts';
import { type ConverseBody, inputText, type ModelCall } from '../../../local/stand-in-judge/converse.ts';
import { type HttpAnswer, jsonAnswer, serviceError } from '../../../local/stand-in-judge/http-answer.ts';
import { type ChatBody, chatInput } from '../../../local/stand-in-judge/server.ts';
import type { ModelBehavior } from './behavior.ts';

const invalid = (message: string): HttpAnswer => serviceError(400, 'ValidationException', message);

type ServiceError = Parameters<typeof serviceError>;
const notFound = (message: string): ServiceError => [404, 'ResourceNotFoundException', message];

/** How Bedrock refuses a model that cannot be called. */
const UNAVAILABLE: Partial<Record<ModelBehavior['state'], ServiceError>> = {
  ended: notFound(
    'This model version has reached the end of its life. Please refer to the AWS documentation for more details.',
  ),
  legacy: notFound(
    'Access denied. This Model is marked by provider as Legacy and you have not been actively using the model in the last 30 days. Please upgrade to an active model on Amazon Bedrock',
  ),
  missing: notFound('Could not resolve the foundation model from the provided model identifier.'),
  denied: [403, 'AccessDeniedException', "You don't have access to the model with the specified model ID."],
  invalid: [400, 'ValidationException', 'The provided model identifier is invalid.'],
};

export function converseRefusal(body: ConverseBody, model: ModelBehavior): HttpAnswer | undefined {
  const unavailable = UNAVAILABLE[model.state];
  if (unavailable !== undefined) return serviceError(...unavailable);
  const { inferenceConfig, outputConfig, toolConfig, system } = body;
  if ((body.messages?.length ?? 0) === 0)
    return invalid(
      'A conversation must start with a user message. Try again with a conversation that starts with a user message.',
    );
  if (model.jsonSchema === 'rejected' && outputConfig?.textFormat)
    return invalid('The model returned the following errors: output_config.format: Extra inputs are not permitted');
  if (model.forcedTool === 'rejected' && toolConfig?.toolChoice)
    return invalid(
      "This model doesn't support the toolConfig.toolChoice.tool field. Remove toolConfig.toolChoice.tool and try again.",
    );
  if (model.temperature === 'rejected' && inferenceConfig?.temperature !== undefined)
    return invalid('The model returned the following errors: `temperature` is deprecated for this model.');
  if (model.systemPrompt === 'rejected' && (system?.length ?? 0) > 0)
    return invalid(
      "This model doesn't support system messages. Try again without the system message or use a model that supports system messages.",
    );
  const { maxTokens = 0 } = inferenceConfig ?? {};
  if (maxTokens > (model.mostAnswerTokens ?? Infinity))
    return invalid(
      `The maximum tokens you requested exceeds the model limit of ${model.mostAnswerTokens}. Try again with a maximum tokens value that is lower than ${model.mostAnswerTokens}.`,
    );
  const cached = [...(system ?? []), ...(body.messages ?? []).flatMap(({ content }) => content)].some(
    (block) => block.cachePoint,
  );
  if (model.caching === 'rejected' && cached)
    return invalid(
      'You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.',
    );
  const isTooLong = model.maxInputTokens !== undefined && tokensOf(inputText(body)) > model.maxInputTokens;
  return isTooLong ? invalid('Input is too long for requested model.') : undefined;
}

/** An error in the form OpenAI-compatible servers use. */
export const chatError = (status: number, code: string, message: string): HttpAnswer =>
  jsonAnswer(status, {
    error: { message, type: status === 429 ? 'rate_limit_error' : 'invalid_request_error', param: null, code },
  });

export function chatRefusal(body: ChatBody, model: ModelBehavior): HttpAnswer | undefined {
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
  const { inputTokens } = chatInput(body);
  if (model.maxInputTokens === undefined || inputTokens <= model.maxInputTokens) return undefined;
  const message = `This model's maximum context length is ${model.maxInputTokens} tokens. However, your messages resulted in ${inputTokens} tokens.`;
  return chatError(400, 'context_length_exceeded', message);
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
