/** Builds one line of a Bedrock batch job's input: the Converse request for a capture. */
import type { Capture } from '../../formats/types.ts';
import { answerSchema } from '../answer/answer-schema.ts';
import type { JudgeOptions } from '../judge-capture.ts';
import { answerTokens } from '../pricing/ask-size.ts';
import { buildPrompt } from '../prompt/build-prompt.ts';
import type { BedrockTransport } from '../transports/bedrock.ts';
import type { JudgeScorer } from '../types.ts';

export interface BatchRecord {
  recordId: string;
  /** Body of a Converse request (`modelInvocationType: Converse`). */
  modelInput: Record<string, unknown>;
}

/** Returns the record id of a trace. Record ids contain only letters and digits. */
export const recordIdOf = (traceId: string): string => traceId.replace(/^tr-/, '');

/**
 * Asks all scorers of a capture in one request, whatever `JUDGE_CALLS` is.
 * @param bounds `maxTokens` replaces the bound that follows from the number of scorers
 */
export function batchRecord(
  transport: BedrockTransport,
  traceId: string,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  { maxTokens, thinkingTokens = 0 }: Pick<JudgeOptions, 'maxTokens' | 'thinkingTokens'> = {},
): BatchRecord {
  const { modelId: _, ...modelInput } = transport.request({
    prompt: buildPrompt(capture, scorers, 'json-schema'),
    schema: answerSchema(scorers),
    maxTokens: (maxTokens ?? answerTokens(scorers.length)) + thinkingTokens,
    // Prompt caching helps only calls that follow each other.
    supports: (feature) => feature !== 'cache',
  });
  return { recordId: recordIdOf(traceId), modelInput: modelInput as Record<string, unknown> };
}
