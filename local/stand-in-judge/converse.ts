/** Bedrock's Converse operation over HTTP: its requests, answers and refusals. */
import { cacheMinimum } from '../../src/judge/pricing/prompt-cache.ts';
import { answerTo, tokensOf } from './answer.ts';
import type { AnswerFault, ModelBehavior } from './behavior.ts';
import { type HttpAnswer, jsonAnswer, serviceError } from './http-answer.ts';

export interface ModelCall {
  /** Names of the questions that the stand-in recognized; empty if the call was refused. */
  asked: string[];
  usage?: { inputTokens: number; outputTokens: number } | undefined;
  answer: HttpAnswer;
}

interface Block {
  text?: string;
  guardContent?: { text?: { text?: string } };
  cachePoint?: unknown;
}

/** The parts of a ConverseRequest that the stand-in reads. */
export interface ConverseBody {
  system?: Block[];
  messages?: { role: string; content: Block[] }[];
  inferenceConfig?: { maxTokens?: number; temperature?: number; topP?: number };
  toolConfig?: {
    tools?: { toolSpec?: { name?: string; inputSchema?: unknown } }[];
    toolChoice?: { tool?: { name?: string }; any?: unknown };
  };
  outputConfig?: { textFormat?: { type?: string; structure?: unknown } };
}

export const textOf = (blocks: Block[] | undefined): string =>
  (blocks ?? []).map((block) => block.text ?? block.guardContent?.text?.text ?? '').join('\n');

const invalid = (message: string): HttpAnswer => serviceError(400, 'ValidationException', message);

/** How Bedrock refuses a model that cannot be called. */
const UNAVAILABLE: Partial<Record<ModelBehavior['state'], Parameters<typeof serviceError>>> = {
  ended: [
    404,
    'ResourceNotFoundException',
    'This model version has reached the end of its life. Please refer to the AWS documentation for more details.',
  ],
  legacy: [
    404,
    'ResourceNotFoundException',
    'Access denied. This Model is marked by provider as Legacy and you have not been actively using the model in the last 30 days. Please upgrade to an active model on Amazon Bedrock',
  ],
  missing: [
    404,
    'ResourceNotFoundException',
    'Could not resolve the foundation model from the provided model identifier.',
  ],
  denied: [403, 'AccessDeniedException', "You don't have access to the model with the specified model ID."],
  invalid: [400, 'ValidationException', 'The provided model identifier is invalid.'],
};

function refusal(body: ConverseBody, model: ModelBehavior): HttpAnswer | undefined {
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
  const cached = [...(system ?? []), ...(body.messages ?? []).flatMap(({ content }) => content)].some(
    (block) => block.cachePoint,
  );
  if (model.caching === 'rejected' && cached)
    return invalid(
      'You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.',
    );
  return undefined;
}

/** Prompt prefixes seen before a cache point, with the time of their last use. */
export type PrefixCache = Map<string, number>;

/** The minimum of models that are not listed. */
const MIN_CACHED_TOKENS = 1024;
/** Bedrock keeps a prefix for five minutes. */
const CACHE_MS = 5 * 60 * 1000;

function cacheUsage(
  body: ConverseBody,
  modelId: string,
  cache: PrefixCache,
  now: number,
): { read: number; write: number } {
  const point = body.system?.findIndex((block) => block.cachePoint) ?? -1;
  if (point < 0) return { read: 0, write: 0 };
  const prefix = JSON.stringify([modelId, body.toolConfig, body.outputConfig, body.system?.slice(0, point)]);
  const tokens = tokensOf(inputText({ ...body, system: body.system?.slice(0, point), messages: [] }));
  if (tokens < (cacheMinimum(modelId) ?? MIN_CACHED_TOKENS)) return { read: 0, write: 0 };
  const seen = cache.get(prefix);
  cache.set(prefix, now);
  return seen !== undefined && now - seen < CACHE_MS ? { read: tokens, write: 0 } : { read: 0, write: tokens };
}

const inputText = ({ system, messages, toolConfig, outputConfig }: ConverseBody): string =>
  [
    textOf(system),
    ...(messages ?? []).map(({ content }) => textOf(content)),
    toolConfig ? JSON.stringify(toolConfig.tools) : '',
    outputConfig?.textFormat ? JSON.stringify(outputConfig.textFormat.structure) : '',
  ].join('\n');

/** Answers one Converse request by rule. */
export function answerConverse(
  modelId: string,
  body: ConverseBody,
  model: ModelBehavior,
  fault: AnswerFault | undefined,
  cache: PrefixCache,
  startedAt: number,
): ModelCall {
  const unavailable = UNAVAILABLE[model.state];
  const refused = unavailable ? serviceError(...unavailable) : refusal(body, model);
  if (refused !== undefined) return { asked: [], answer: refused };
  const total = tokensOf(inputText(body));
  if (model.maxInputTokens !== undefined && total > model.maxInputTokens) {
    return { asked: [], answer: invalid('Input is too long for requested model.') };
  }
  const user = textOf(body.messages?.findLast(({ role }) => role === 'user')?.content);
  const { answer, asked } = answerTo(textOf(body.system), user, fault, body.inferenceConfig?.maxTokens);
  const tool =
    body.toolConfig?.toolChoice?.tool?.name ??
    (body.toolConfig?.toolChoice?.any ? body.toolConfig.tools?.[0]?.toolSpec?.name : undefined);
  const useTool = tool !== undefined && model.forcedTool !== 'ignored' && answer.stopReason !== 'guardrail_intervened';
  // A model that ignores the schema gives the same answer in its own format.
  const text =
    model.jsonSchema === 'ignored' && body.outputConfig?.textFormat
      ? answerTo(textOf(body.system), user, 'fenced').answer.text
      : answer.text;
  const content = useTool
    ? [{ toolUse: { toolUseId: 'tooluse_standin', name: tool, input: answer.object } }]
    : text === ''
      ? []
      : [{ text }];
  const { read, write } =
    model.caching === 'counted' ? cacheUsage(body, modelId, cache, startedAt) : { read: 0, write: 0 };
  const outputTokens = tokensOf(JSON.stringify(content));
  const usage = {
    inputTokens: total - Math.min(total, read + write),
    outputTokens,
    totalTokens: total + outputTokens,
    ...(read + write > 0 ? { cacheReadInputTokens: read, cacheWriteInputTokens: write } : {}),
  };
  return {
    asked,
    usage: { inputTokens: total, outputTokens },
    answer: jsonAnswer(200, {
      output: { message: { role: 'assistant', content } },
      stopReason: useTool && answer.stopReason === 'end_turn' ? 'tool_use' : answer.stopReason,
      usage,
      metrics: { latencyMs: Date.now() - startedAt },
    }),
  };
}
