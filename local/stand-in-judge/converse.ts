/** Bedrock's Converse operation over HTTP: its requests and answers. */
import { answerTo, type Change, tokensOf } from './answer.ts';
import { type HttpAnswer, jsonAnswer } from './http-answer.ts';

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

export const inputText = ({ system, messages, toolConfig, outputConfig }: ConverseBody): string =>
  [
    textOf(system),
    ...(messages ?? []).map(({ content }) => textOf(content)),
    toolConfig ? JSON.stringify(toolConfig.tools) : '',
    outputConfig?.textFormat ? JSON.stringify(outputConfig.textFormat.structure) : '',
  ].join('\n');

/** Answers one Converse request by rule. */
export function answerConverse(body: ConverseBody, startedAt: number, change?: Change): ModelCall {
  const inputTokens = tokensOf(inputText(body));
  const user = textOf(body.messages?.findLast(({ role }) => role === 'user')?.content);
  const { answer, asked } = answerTo(textOf(body.system), user, body.inferenceConfig?.maxTokens, change);
  const { tools, toolChoice } = body.toolConfig ?? {};
  const tool = toolChoice?.tool?.name ?? (toolChoice?.any ? tools?.[0]?.toolSpec?.name : undefined);
  const useTool = tool !== undefined && answer.stopReason !== 'guardrail_intervened';
  const text = answer.text === '' ? [] : [{ text: answer.text }];
  const content = useTool ? [{ toolUse: { toolUseId: 'tooluse_standin', name: tool, input: answer.object } }] : text;
  const outputTokens = tokensOf(JSON.stringify(content));
  return {
    asked,
    usage: { inputTokens, outputTokens },
    answer: jsonAnswer(200, {
      output: { message: { role: 'assistant', content } },
      stopReason: useTool && answer.stopReason === 'end_turn' ? 'tool_use' : answer.stopReason,
      usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens },
      metrics: { latencyMs: Date.now() - startedAt },
    }),
  };
}
