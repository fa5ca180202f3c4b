/** Builds requests and reads answers of OpenAI chat completions, for a URL and for SageMaker endpoints. */

import * as z from 'zod';
import { parseJson } from '../../captures/json.ts';
import { shownOf, Words } from '../../core/errors/errors.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import type { JsonSchema } from '../answer/answer-schema.ts';
import { CallFailure, type CallFailureKind, type Feature } from '../errors.ts';
import reasons from '../finish-reasons.json' with { type: 'json' };
import type { JudgeParameters } from '../parameters.ts';
import { OWN_CACHE_MINIMUM, prefixTokens } from '../pricing/request-tokens.ts';
import { ANSWER_NAME, userText } from '../prompt/build-prompt.ts';
import { estimateTokens } from '../tokens.ts';
import type { ModelAnswer, Stop } from '../types.ts';
import type { Ask } from './transport.ts';

const STOPS = reasons.chat as Record<string, Stop>;

const completionSchema = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        message: z.looseObject({
          content: z.union([z.string(), z.null(), z.array(z.looseObject({ text: z.string().optional() }))]).optional(),
          tool_calls: z
            .array(z.looseObject({ function: z.looseObject({ name: z.string(), arguments: z.unknown() }) }))
            .nullish(),
        }),
        finish_reason: z.string().nullish(),
      }),
    )
    .min(1),
  usage: z
    .looseObject({
      prompt_tokens: z.number(),
      completion_tokens: z.number().default(0),
      prompt_tokens_details: z.looseObject({ cached_tokens: z.number().nullish() }).nullish(),
    })
    .nullish()
    // A malformed count is treated as missing, because the answer itself is billed and valid.
    .catch(null),
});

function answerForm(schema: JsonSchema, rung: Ask['prompt']['rung']): object {
  if (rung === 'json-schema') {
    return { response_format: { type: 'json_schema', json_schema: { name: ANSWER_NAME, schema, strict: true } } };
  }
  if (rung === 'prompt') return {};
  const description = 'Records the verdicts on the reply.';
  return {
    tools: [{ type: 'function', function: { name: ANSWER_NAME, description, parameters: schema } }],
    tool_choice: { type: 'function', function: { name: ANSWER_NAME } },
  };
}

/** Returns the body of a chat completion request. */
export function chatBody(ask: Ask, model: string | undefined, parameters: JudgeParameters): Record<string, unknown> {
  const { prompt, schema, maxTokens, supports } = ask;
  const { temperature, topP, other } = parameters;
  const messages = supports('system')
    ? [
        { role: 'system', content: prompt.system },
        { role: 'user', content: userText(prompt) },
      ]
    : [{ role: 'user', content: `${prompt.system}\n${userText(prompt)}` }];
  return {
    model,
    messages,
    [supports('max-tokens-name') ? 'max_tokens' : 'max_completion_tokens']: maxTokens,
    ...(temperature !== undefined && supports('temperature') ? { temperature } : {}),
    ...(topP === undefined ? {} : { top_p: topP }),
    ...answerForm(schema, prompt.rung),
    ...other,
  };
}

function parsedArguments(given: unknown): unknown {
  if (typeof given !== 'string') return given;
  const parsed = parseJson(given);
  // Others are read as text, which can be repaired, and shows two answers to one question.
  return parsed.ok && !parsed.duplicateKeys ? parsed.value : undefined;
}

/** Whether the text is an HTML page, which comes from a gateway instead of a model. */
export const isPage = (text: string): boolean => /^\s*</.test(text);

/** @throws CallFailure `unavailable` when the answer is not a chat completion, for example a proxy's page while a model loads */
export function readCompletion(text: string, ask: Ask): ModelAnswer {
  const document = jsonIn(text);
  if (document === undefined) {
    // The text may contain captured content and is not shown.
    const message = `The judge’s answer is not JSON; it has ${text.length} characters`;
    throw new CallFailure('unavailable', message, { mayBePaid: !isPage(text) });
  }
  const parsed = completionSchema.safeParse(document);
  if (!parsed.success) {
    const issues = z.prettifyError(parsed.error);
    throw new CallFailure('unavailable', `The judge’s answer is not a chat completion: ${issues}`, { mayBePaid: true });
  }
  const { choices, usage } = parsed.data;
  const choice = choices[0];
  const content = choice?.message.content ?? '';
  const call = choice?.message.tool_calls?.find((one) => one.function.name === ANSWER_NAME)?.function.arguments;
  const object = parsedArguments(call);
  const said = typeof content === 'string' ? content : content.map((part) => part.text ?? '').join('\n');
  const answer = object === undefined && typeof call === 'string' ? call : said;
  const reported = usage?.prompt_tokens_details?.cached_tokens;
  const cached = reported ?? 0;
  // A server that reports the figure caches every prefix that is long enough.
  const asksForCache = typeof reported === 'number' && prefixTokens(ask.prompt.scorers) >= OWN_CACHE_MINIMUM;
  return {
    object,
    text: answer,
    stop: STOPS[choice?.finish_reason ?? ''] ?? 'end',
    stopReason: choice?.finish_reason ?? '',
    // Some self-hosted servers do not count tokens. An estimate is more accurate than zero.
    usage: usage
      ? {
          inputTokens: usage.prompt_tokens - cached,
          outputTokens: usage.completion_tokens,
          ...(cached !== 0 ? { cacheReadInputTokens: cached } : {}),
          ...(asksForCache ? { asksForCache } : {}),
        }
      : {
          inputTokens: estimateTokens(ask.prompt.system) + estimateTokens(userText(ask.prompt)),
          outputTokens: estimateTokens(answer),
        },
  };
}

/** Messages of servers and models about features that they lack. */
const LACKING: readonly [RegExp, Feature][] = [
  [/max_completion_tokens/i, 'max-tokens-name'],
  [/tool_?choice|tool_?config|\btools?\b/i, 'tool'],
  [/\bthinking\b|\breasoning|\beffort\b/i, 'thinking'],
  [/output_?config|response_?format|json.?schema|guided_|structured output|grammar/i, 'json-schema'],
  [/temperature/i, 'temperature'],
  [/prompt caching|cache_?point|cache_?control/i, 'cache'],
  [/system (role|messages?|prompts?|instructions?)|roles? must alternate|only user and assistant roles/i, 'system'],
];

const TOO_LONG =
  /context_length_exceeded|context (length|window)|too (long|many (input )?tokens)|maximum (context|number of) .{0,80}tokens|exceeds? the (maximum|limit).{0,80}(tokens|length)|inputs? tokens? \+ |must have less than/i;

/** Refusals that every request with the same settings would meet. */
const MODEL_OR_SETTINGS =
  /model_not_found|does not exist|no such model|unknown model|model identifier is invalid|on-demand throughput isn.t supported|operation not allowed|end of its life|marked by provider as legacy|model is not supported|not supported in this region|guardrail (identifier|version|id|was not found|not found)|invalid guardrail|inference profile .{0,200}(not found|invalid)/i;

/** Classifies a refusal of any model service by its status and message. */
export function refusalOf(status: number, text: string): { kind: CallFailureKind; feature?: Feature } {
  if (status === 401 || status === 403) return { kind: 'refused' };
  // 408 and 424: the model timed out, or failed during inference.
  if (status < 300 || status >= 500 || status === 408 || status === 424) return { kind: 'unavailable' };
  if (TOO_LONG.test(text) || status === 413) return { kind: 'too-long' };
  if (MODEL_OR_SETTINGS.test(text)) return { kind: 'refused' };
  const lacking = LACKING.find(([pattern]) => pattern.test(text));
  return lacking === undefined ? { kind: 'rejected' } : { kind: 'unsupported', feature: lacking[1] };
}

/**
 * Throttling that lasts until the provider's day is over: "Too many tokens per day" of Bedrock, "tokens per day (TPD)" of servers
 * that are compatible with OpenAI.
 */
const PER_DAY =
  /\b(?:tokens|requests|calls) per day\b|\((?:TPD|RPD)\)|\bdaily (?:token |request )?(?:quota|limit|allowance)\b/i;

export const saysPerDay = (message: string): boolean => PER_DAY.test(message);

/** Classifies an error response of a chat completion server. */
export function readChatFailure(status: number, text: string, retryAfterMs: number | undefined): CallFailure {
  const { code, type } = Object(Object(jsonIn(text)).error) as { code?: unknown; type?: unknown };
  const message = shownOf({ status, code: code ?? type, text });
  const failure = (kind: CallFailureKind, feature?: Feature): CallFailure =>
    new CallFailure(kind, message, { status, retryAfterMs, feature, cause: new Words(text) });
  // An exhausted credit does not return with time.
  if (status === 429)
    return failure(/insufficient_quota/.test(text) ? 'refused' : saysPerDay(text) ? 'day' : 'throttled');
  if (status === 404 || status === 405) return failure('refused');
  const { kind, feature } = refusalOf(status, text);
  return failure(kind, feature);
}
