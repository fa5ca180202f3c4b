/** One line of a Bedrock batch job's input: the Converse request that would be sent for the capture. */
import type { Capture } from '../../formats/types.ts';
import { answerSchema } from '../answer/answer-schema.ts';
import { answerTokens } from '../pricing/ask-size.ts';
import { buildPrompt, MAX_RECORD_TOKENS, type Rung } from '../prompt/build-prompt.ts';
import type { BedrockTransport } from '../transports/bedrock.ts';
import type { JudgeScorer } from '../types.ts';

export interface BatchRecord {
  recordId: string;
  /** Body of a Converse request (`modelInvocationType: Converse`). */
  modelInput: Record<string, unknown>;
}

/** Record ids are letters and digits alone. */
export const recordIdOf = (traceId: string): string => traceId.replace(/^tr-/, '');

interface BatchRecordOptions {
  /** Rung of structured output to begin with. */
  rung?: Rung;
  /** In place of the bound that follows from the number of scorers. */
  maxTokens?: number | undefined;
  thinkingTokens?: number | undefined;
}

/** All scorers of a capture in one request: a batch job is always judged together. */
export function batchRecord(
  transport: BedrockTransport,
  traceId: string,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  { rung = 'json-schema', maxTokens, thinkingTokens = 0 }: BatchRecordOptions = {},
): BatchRecord {
  const { modelId: _, ...modelInput } = transport.request({
    prompt: buildPrompt(capture, scorers, rung, { maxRecordTokens: MAX_RECORD_TOKENS }),
    schema: answerSchema(scorers),
    maxTokens: (maxTokens ?? answerTokens(scorers.length)) + thinkingTokens,
    // Prompt caching belongs to calls that follow each other.
    supports: (feature) => feature !== 'cache',
  });
  return { recordId: recordIdOf(traceId), modelInput: modelInput as Record<string, unknown> };
}
