/** Reads the output of a batch job: a Converse reply or an error for each record. */

import type { ConverseCommandOutput } from '@aws-sdk/client-bedrock-runtime';
import * as z from 'zod';
import { jsonIn } from '../../core/values/json-in.ts';
import { believed } from '../pricing/call-amounts.ts';
import { MAX_RECORD_TOKENS } from '../prompt/build-prompt.ts';
import { INPUT_MARGIN } from '../tokens.ts';
import { readOutput } from '../transports/bedrock.ts';
import type { ModelAnswer } from '../types.ts';

const lineSchema = z.looseObject({
  recordId: z.string(),
  modelOutput: z.looseObject({ stopReason: z.string().optional() }).optional(),
  error: z.looseObject({ errorCode: z.unknown(), errorMessage: z.unknown() }).optional(),
});

/** Charged for an answer with an impossible usage: the maximum of captured text, and an answer of the same length. */
const LONGEST = { inputTokens: MAX_RECORD_TOKENS * INPUT_MARGIN, outputTokens: MAX_RECORD_TOKENS };

/** Returns the answers of an output file by record id. Failed records and unreadable lines are left out. */
export function readBatchAnswers(text: string): Map<string, ModelAnswer> {
  const answers = new Map<string, ModelAnswer>();
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const parsed = lineSchema.safeParse(jsonIn(line));
    if (!parsed.success || parsed.data.modelOutput === undefined || parsed.data.error !== undefined) continue;
    const answer = readOutput(parsed.data.modelOutput as unknown as ConverseCommandOutput);
    answers.set(parsed.data.recordId, { ...answer, usage: believed({ ...answer.usage, batch: true }, LONGEST) });
  }
  return answers;
}
