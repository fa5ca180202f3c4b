/** Builds one line of a Bedrock batch job's input: the Converse request for a capture. */
import type { Capture } from '../../captures/types.ts';
import { answerSchema } from '../answer/answer-schema.ts';
import type { JudgeOptions } from '../judge-capture.ts';
import { answerTokens } from '../pricing/request-tokens.ts';
import { buildPrompt } from '../prompt/build-prompt.ts';
import type { BedrockTransport } from '../transports/bedrock.ts';
import type { JudgeScorer } from '../types.ts';

export type BatchRecord = ReturnType<typeof batchRecord>;

/**
 * Models that AWS lists for structured outputs (Bedrock User Guide, "Get validated JSON results from models"), which a batch
 * job accepts too. A record for another model describes the answer's form in its text: a batch job refuses each record with
 * a tool ("Process multiple prompts with batch inference").
 */
const TAKES_SCHEMA = /anthropic\.claude-[a-z]+-(?:4-[5-9]|[5-9])/;

/**
 * Asks all scorers of a capture in one request, whatever `JUDGE_CALLS` is.
 * @param recordId letters and digits
 * @param maxTokens replaces the bound that follows from the number of scorers
 */
export function batchRecord(
  transport: BedrockTransport,
  recordId: string,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  { maxTokens, thinkingTokens = 0 }: Pick<JudgeOptions, 'maxTokens' | 'thinkingTokens'> = {},
) {
  const rung = TAKES_SCHEMA.test(transport.sourceId) ? 'json-schema' : 'prompt';
  const { modelId: _, ...modelInput } = transport.request({
    prompt: buildPrompt(capture, scorers, rung),
    schema: answerSchema(scorers),
    maxTokens: (maxTokens ?? answerTokens(scorers.length)) + thinkingTokens,
    // Prompt caching helps only calls that follow each other.
    supports: (feature) => feature !== 'cache',
  });
  /** `modelInput`: the body of a Converse request (`modelInvocationType: Converse`). */
  return { recordId, modelInput: modelInput as Record<string, unknown> };
}
