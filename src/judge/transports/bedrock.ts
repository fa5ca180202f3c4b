/** A judge on Amazon Bedrock, through the Converse operation. */
import {
  BedrockRuntimeClient,
  type BedrockRuntimeClientConfig,
  ConverseCommand,
  type ConverseCommandInput,
  type ConverseCommandOutput,
  type Message,
  type SystemContentBlock,
} from '@aws-sdk/client-bedrock-runtime';
import { answerSchemaText, type JsonSchema } from '../answer/answer-schema.ts';
import { createJudgeOver, type JudgeOptions } from '../judge-capture.ts';
import { memoByScorers } from '../memo.ts';
import type { ModelAnswer, Stop } from '../model-answer.ts';
import { ANSWER_NAME, type JudgePrompt, type Rung, systemPrompt } from '../prompt/build-prompt.ts';
import { estimateTokens } from '../prompt/tokens.ts';
import type { Judge } from '../types.ts';
import { readAwsFailure } from './bedrock-failures.ts';
import { answerBounds, type JudgeParameters, readParameters } from './parameters.ts';
import { type Ask, type JudgeTransport, MAX_CONCURRENT_CALLS } from './transport.ts';

/**
 * A judge's answer takes seconds; a minute covers one that thinks, two one that waits in a queue. The first use of
 * a JSON schema may be compiled for minutes: a timeout there is tried again, and finds it compiled.
 */
const CALL_TIMEOUT_MS = 120_000;

/** Tokens from which on models cache a prompt's beginning, by their ids. A model that is not here is not asked to cache. */
const CACHE_MINIMUMS: readonly [RegExp, number][] = [
  [/anthropic\.claude-(opus-4-[5-9]|haiku-4-5)/, 4096],
  [/anthropic\.claude-(3-5-haiku)/, 2048],
  [/anthropic\.claude-(sonnet-4|opus-4|3-7-sonnet)/, 1024],
  [/amazon\.nova-(micro|lite|pro|premier|2)/, 1000],
];

const STOPS: Record<string, Stop> = {
  end_turn: 'end',
  stop_sequence: 'end',
  tool_use: 'end',
  max_tokens: 'cut',
  guardrail_intervened: 'guardrail',
  content_filtered: 'filtered',
  malformed_model_output: 'malformed',
  malformed_tool_use: 'malformed',
  model_context_window_exceeded: 'context',
};

export interface Guardrail {
  id: string;
  version: string;
}

interface BedrockTransportOptions {
  /** A model id, an inference profile's id, or an ARN. */
  modelId: string;
  client: BedrockRuntimeClient;
  parameters?: JudgeParameters;
  guardrail?: Guardrail | undefined;
}

/** Tokens below which the model caches nothing; `undefined`: not known to cache. */
const cacheMinimum = (modelId: string): number | undefined =>
  CACHE_MINIMUMS.find(([pattern]) => pattern.test(modelId))?.[1];

/**
 * What comes before the cache point: the instructions, and the tool or the schema, which the service puts into words of
 * its own beside them. A cache point that turns out to come too early does nothing.
 */
const prefixTokens = memoByScorers(
  (scorers, rung: Rung): number =>
    estimateTokens(systemPrompt(scorers, rung)) + (rung === 'prompt' ? 0 : estimateTokens(answerSchemaText(scorers))),
);

/** Schemas of tools are an older subset of JSON Schema: some models refuse all but type, properties and required. */
function toolSchema(schema: JsonSchema): JsonSchema {
  const { additionalProperties: _, ...rest } = schema;
  if (typeof rest.properties !== 'object' || rest.properties === null) return rest;
  const properties = Object.entries(rest.properties as Record<string, JsonSchema>);
  return { ...rest, properties: Object.fromEntries(properties.map(([name, inner]) => [name, toolSchema(inner)])) };
}

function answerConfig({ prompt, schema }: Ask): Pick<ConverseCommandInput, 'outputConfig' | 'toolConfig'> {
  if (prompt.rung === 'json-schema') {
    const jsonSchema = { name: ANSWER_NAME, schema: answerSchemaText(prompt.scorers) };
    return { outputConfig: { textFormat: { type: 'json_schema', structure: { jsonSchema } } } };
  }
  if (prompt.rung === 'prompt') return {};
  const toolSpec = {
    name: ANSWER_NAME,
    description: 'Records the verdicts on the reply.',
    // The SDK's type for a JSON document has no name outside of it.
    inputSchema: { json: toolSchema(schema) as never },
  };
  return { toolConfig: { tools: [{ toolSpec }], toolChoice: { tool: { name: ANSWER_NAME } } } };
}

/** With a guardrail, the record alone is what it guards: our own instructions are not the captured traffic. */
function userContent({ user }: JudgePrompt, preface: string, guardrail: Guardrail | undefined): Message['content'] {
  if (guardrail === undefined) return [{ text: `${preface}${user.before}\n${user.record}\n${user.after}` }];
  return [
    { text: `${preface}${user.before}` },
    { guardContent: { text: { text: user.record } } },
    { text: user.after },
  ];
}

export class BedrockTransport implements JudgeTransport {
  readonly sourceId: string;
  readonly userSet: ReadonlySet<string>;
  private readonly modelId: string;
  private readonly client: BedrockRuntimeClient;
  private readonly parameters: JudgeParameters;
  private readonly guardrail: Guardrail | undefined;
  private readonly cacheFrom: number;

  constructor({ modelId, client, parameters = readParameters(), guardrail }: BedrockTransportOptions) {
    this.sourceId = `bedrock:/${modelId}`;
    this.modelId = modelId;
    this.client = client;
    this.parameters = parameters;
    this.userSet = parameters.userSet;
    this.guardrail = guardrail;
    this.cacheFrom = cacheMinimum(modelId) ?? Number.POSITIVE_INFINITY;
  }

  async send(ask: Ask, signal?: AbortSignal): Promise<ModelAnswer> {
    const command = new ConverseCommand(this.request(ask));
    try {
      return readOutput(await this.client.send(command, signal === undefined ? {} : { abortSignal: signal }));
    } catch (error) {
      throw readAwsFailure(error, signal);
    }
  }

  /** The request as it goes out, for tests and for batch inference. */
  request(ask: Ask): ConverseCommandInput {
    const { prompt, maxTokens, supports } = ask;
    const { temperature, topP, stop, other } = this.parameters;
    const takesSystem = supports('system');
    const system: SystemContentBlock[] = [{ text: prompt.system }];
    const form = answerConfig(ask);
    if (takesSystem && supports('cache') && prefixTokens(prompt.scorers, prompt.rung) >= this.cacheFrom) {
      system.push({ cachePoint: { type: 'default' } });
    }
    const preface = takesSystem ? '' : `${prompt.system}\n`;
    return {
      modelId: this.modelId,
      ...(takesSystem ? { system } : {}),
      messages: [{ role: 'user', content: userContent(prompt, preface, this.guardrail) }],
      inferenceConfig: {
        maxTokens,
        ...(temperature !== undefined && supports('temperature') ? { temperature } : {}),
        ...(topP === undefined ? {} : { topP }),
        ...(stop === undefined ? {} : { stopSequences: stop }),
      },
      ...form,
      ...(Object.keys(other).length === 0 ? {} : { additionalModelRequestFields: other as never }),
      ...(this.guardrail === undefined
        ? {}
        : { guardrailConfig: { guardrailIdentifier: this.guardrail.id, guardrailVersion: this.guardrail.version } }),
    };
  }
}

/** A Converse reply in the judge's own terms. */
export function readOutput({ output, stopReason, usage }: ConverseCommandOutput): ModelAnswer {
  const content = output?.message?.content ?? [];
  const tool = content.find((block) => block.toolUse?.name === ANSWER_NAME)?.toolUse;
  return {
    ...(tool === undefined ? {} : { object: tool.input }),
    text: content.flatMap((block) => block.text ?? []).join('\n'),
    // A reason that is not known yet is taken for an end: what matters is what the answer holds.
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
 * A client made for judging: calls share an HTTP/2 connection or two (by default the SDK opens one a call),
 * and no retries of its own, since those would hide throttling from the limiter.
 */
export function createBedrockClient(config: BedrockRuntimeClientConfig = {}): BedrockRuntimeClient {
  return new BedrockRuntimeClient({
    maxAttempts: 1,
    requestHandler: {
      disableConcurrentStreams: false,
      maxConcurrentStreams: MAX_CONCURRENT_CALLS,
      requestTimeout: CALL_TIMEOUT_MS,
    } as never,
    ...config,
  });
}

export interface BedrockJudgeConfig extends JudgeOptions {
  /** With or without `bedrock:/`. */
  modelId: string;
  client?: BedrockRuntimeClient;
  /** As in `MLFLOW_EVALUATION_MODEL_PARAM`. */
  parameters?: Readonly<Record<string, unknown>>;
  guardrail?: Guardrail | undefined;
}

/** The transport to the model and the options of the judge over it, for a judge and for batch inference alike. */
export function bedrockParts(config: BedrockJudgeConfig): { transport: BedrockTransport; options: JudgeOptions } {
  const { modelId, client = createBedrockClient(), parameters: given, guardrail, ...options } = config;
  const parameters = readParameters(given);
  const transport = new BedrockTransport({
    modelId: modelId.replace(/^bedrock:\/+/, ''),
    client,
    parameters,
    guardrail,
  });
  return { transport, options: { ...answerBounds(parameters), ...options } };
}

export function createBedrockJudge(config: BedrockJudgeConfig): Judge {
  const { transport, options } = bedrockParts(config);
  return createJudgeOver(transport, options);
}
