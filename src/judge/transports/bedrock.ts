/** A judge on Amazon Bedrock, called through the Converse API. */
import * as bedrock from '@aws-sdk/client-bedrock-runtime';
import { answerSchemaText, type JsonSchema } from '../answer/answer-schema.ts';
import reasons from '../finish-reasons.json' with { type: 'json' };
import { judgeName } from '../judge-id.ts';
import { propertiesOf } from '../models/model-properties.ts';
import { type JudgeParameters, setsThinking } from '../parameters.ts';
import { prefixTokens } from '../pricing/request-tokens.ts';
import { ANSWER_NAME, type JudgePrompt } from '../prompt/build-prompt.ts';
import type { ModelAnswer, Stop } from '../types.ts';
import { readAwsFailure } from './bedrock-failures.ts';
import { type Ask, CALL_TIMEOUT_MS, type JudgeTransport, MAX_CONCURRENT_CALLS } from './transport.ts';

const STOPS = reasons.converse as Record<string, Stop>;

/** Tool schemas are an older subset of JSON Schema: some models accept only type, properties and required. */
function toolSchema(schema: JsonSchema): JsonSchema {
  const { additionalProperties: _, ...rest } = schema;
  if (typeof rest.properties !== 'object' || rest.properties === null) return rest;
  const properties = Object.entries(rest.properties as Record<string, JsonSchema>);
  return { ...rest, properties: Object.fromEntries(properties.map(([name, inner]) => [name, toolSchema(inner)])) };
}

function answerConfig({ prompt, schema }: Ask): Pick<bedrock.ConverseCommandInput, 'outputConfig' | 'toolConfig'> {
  if (prompt.rung === 'json-schema') {
    const jsonSchema = { name: ANSWER_NAME, schema: answerSchemaText(prompt.scorers) };
    return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } };
  }
  if (prompt.rung === 'prompt') return {};
  const toolSpec = {
    name: ANSWER_NAME,
    description: 'Records the verdicts on the reply.',
    // The SDK does not export its type of a JSON document.
    inputSchema: { json: toolSchema(schema) as never },
  };
  return { toolConfig: { tools: [{ toolSpec }], toolChoice: { tool: { name: ANSWER_NAME } } } };
}

/** A guardrail checks only the record. The instructions are not captured traffic. */
function userContent(
  { user }: JudgePrompt,
  preface: string,
  guardrail: JudgeParameters['guardrail'],
): bedrock.Message['content'] {
  if (guardrail === undefined) return [{ text: `${preface}${user.before}\n${user.record}\n${user.after}` }];
  return [
    { text: `${preface}${user.before}` },
    { guardContent: { text: { text: user.record } } },
    { text: user.after },
  ];
}

export interface BedrockTransport extends JudgeTransport {
  /** Returns the request to send. Batch inference writes it to a file. */
  request(ask: Ask): bedrock.ConverseCommandInput;
}

/** @param modelId a model id, an inference profile's id, or an ARN, without `bedrock:/` */
export function bedrockTransport(
  modelId: string,
  parameters: JudgeParameters,
  client: bedrock.BedrockRuntimeClient = createBedrockClient(),
  properties = propertiesOf(modelId),
): BedrockTransport {
  const { temperature, topP, guardrail, serviceTier, other, userSet } = parameters;
  const cacheFrom = properties?.cacheMinimum ?? Number.POSITIVE_INFINITY;
  const least = setsThinking(other) ? undefined : properties?.leastThinking;

  function request(ask: Ask): bedrock.ConverseCommandInput {
    const { prompt, maxTokens, supports } = ask;
    const system: bedrock.SystemContentBlock[] = [{ text: prompt.system }];
    if (supports('cache') && prefixTokens(prompt.scorers) >= cacheFrom) {
      system.push({ cachePoint: { type: 'default' } });
    }
    const preface = supports('system') ? '' : `${prompt.system}\n`;
    const fields = supports('thinking') ? { ...least, ...other } : other;
    return {
      modelId,
      ...(supports('system') ? { system } : {}),
      messages: [{ role: 'user', content: userContent(prompt, preface, guardrail) }],
      inferenceConfig: {
        maxTokens,
        ...(temperature !== undefined && supports('temperature') ? { temperature } : {}),
        ...(topP === undefined ? {} : { topP }),
      },
      ...answerConfig(ask),
      ...(serviceTier === undefined ? {} : { serviceTier: { type: serviceTier } }),
      ...(Object.keys(fields).length === 0 ? {} : { additionalModelRequestFields: fields as never }),
      ...(guardrail && {
        guardrailConfig: { guardrailIdentifier: guardrail.id, guardrailVersion: guardrail.version },
      }),
    };
  }

  return {
    sourceId: judgeName(`bedrock:/${modelId}`),
    userSet,
    request,
    async send(ask, signal) {
      const input = request(ask);
      const asksForCache = input.system?.some(({ cachePoint }) => cachePoint !== undefined);
      try {
        const answer = readOutput(await client.send(new bedrock.ConverseCommand(input), { abortSignal: signal }));
        return asksForCache ? { ...answer, usage: { ...answer.usage, asksForCache } } : answer;
      } catch (error) {
        throw readAwsFailure(error, signal);
      }
    },
  };
}

/** Reads a Converse reply. */
export function readOutput({ output, stopReason, usage }: bedrock.ConverseCommandOutput): ModelAnswer {
  const content = output?.message?.content ?? [];
  const tool = content.find((block) => block.toolUse?.name === ANSWER_NAME)?.toolUse;
  return {
    ...(tool === undefined ? {} : { object: tool.input }),
    text: content.flatMap((block) => block.text ?? []).join('\n'),
    // An unknown reason is treated as a normal end, because the content of the answer decides.
    stop: STOPS[stopReason ?? ''] ?? 'end',
    stopReason: stopReason ?? '',
    usage: {
      inputTokens: usage?.inputTokens ?? 0,
      outputTokens: usage?.outputTokens ?? 0,
      ...(usage?.cacheReadInputTokens ? { cacheReadInputTokens: usage.cacheReadInputTokens } : {}),
      ...(usage?.cacheWriteInputTokens ? { cacheWriteInputTokens: usage.cacheWriteInputTokens } : {}),
    },
  };
}

/**
 * Returns a client for judging. Calls share one or two HTTP/2 connections (the SDK's default is one per call). The
 * client does not retry, because retries would hide throttling from the limiter. Bedrock may compile a new JSON schema for minutes:
 * that call times out, and its retry finds the schema compiled.
 */
export function createBedrockClient(config: bedrock.BedrockRuntimeClientConfig = {}): bedrock.BedrockRuntimeClient {
  return new bedrock.BedrockRuntimeClient({
    maxAttempts: 1,
    requestHandler: {
      disableConcurrentStreams: false,
      maxConcurrentStreams: MAX_CONCURRENT_CALLS,
      requestTimeout: CALL_TIMEOUT_MS,
    } as never,
    ...config,
  });
}
