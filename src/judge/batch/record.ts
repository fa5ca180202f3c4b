/** Builds one line of a Bedrock batch job's input: the Converse request for a capture. */
import type { Capture } from '../../captures/types.ts';
import { answerSchema } from '../answer/answer-schema.ts';
import { ModelCapabilities } from '../calls/model-capabilities.ts';
import type { JudgeOptions } from '../judge-capture.ts';
import { answerTokens } from '../pricing/request-tokens.ts';
import { buildPrompt } from '../prompt/build-prompt.ts';
import type { BedrockTransport } from '../transports/bedrock.ts';
import type { JudgeScorer } from '../types.ts';

/**
 * Asks all scorers of a capture in one request. If the model is known to accept a schema, the answer has one. Else the
 * text describes the form, because a batch job refuses each record with a tool ("Process multiple prompts with batch
 * inference").
 * @param recordId letters and digits
 */
export function batchRecord(
  transport: BedrockTransport,
  recordId: string,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  options: Pick<JudgeOptions, 'maxTokens' | 'thinkingTokens' | 'properties' | 'learned'> = {},
) {
  const { learned, properties, maxTokens } = options;
  const capabilities = new ModelCapabilities(properties);
  if (learned?.refused !== undefined) capabilities.adopt(learned.refused);
  const own = answerTokens(scorers.length, options);
  const rung = properties !== undefined && capabilities.supports('json-schema') ? 'json-schema' : 'prompt';
  // A job has its own price, and no tier.
  const { modelId, serviceTier, ...modelInput } = transport.request({
    prompt: buildPrompt(capture, scorers, rung),
    schema: answerSchema(scorers),
    maxTokens: (maxTokens === undefined ? learned?.bound(own) : own) ?? own,
    // Prompt caching helps only calls that follow each other.
    supports: (feature) => feature !== 'cache' && capabilities.supports(feature),
  });
  /** `modelInput`: the body of a Converse request (`modelInvocationType: Converse`). */
  return { recordId, modelInput: modelInput as Record<string, unknown> };
}
