/** Reads the output of a batch job: a Converse reply or an error for each record. */

import type { ConverseCommandOutput } from '@aws-sdk/client-bedrock-runtime';
import * as z from 'zod';
import { jsonIn } from '../../core/values/json-in.ts';
import { believed } from '../pricing/call-amounts.ts';
import { MAX_RECORD_TOKENS } from '../prompt/build-prompt.ts';
import { INPUT_MARGIN } from '../tokens.ts';
import { readOutput } from '../transports/bedrock.ts';
import { refusalOf } from '../transports/chat.ts';
import type { ModelAnswer } from '../types.ts';

const lineSchema = z.looseObject({
  recordId: z.string(),
  modelOutput: z.looseObject({ stopReason: z.string().optional() }).optional(),
  error: z.looseObject({ errorCode: z.unknown(), errorMessage: z.unknown() }).optional(),
});

/** Charged for an answer with an impossible usage: the maximum of captured text, and an answer of the same length. */
const LONGEST = { inputTokens: MAX_RECORD_TOKENS * INPUT_MARGIN, outputTokens: MAX_RECORD_TOKENS };

/** The answer, or the reason for a missing answer, by record id. */
export type BatchOutput = ReadonlyMap<string, ModelAnswer | string>;

/** Reads an output file, or an input file, whose records have no answer. Skips unreadable lines. */
export function readBatchAnswers(text: string): BatchOutput {
  const output = new Map<string, ModelAnswer | string>();
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const parsed = lineSchema.safeParse(jsonIn(line));
    if (!parsed.success) continue;
    const { recordId, modelOutput, error } = parsed.data;
    if (modelOutput === undefined || error !== undefined) {
      output.set(recordId, error === undefined ? 'unanswered' : reasonOf(error));
      continue;
    }
    const answer = readOutput(modelOutput as unknown as ConverseCommandOutput);
    output.set(recordId, { ...answer, usage: believed({ ...answer.usage, batch: true }, LONGEST) });
  }
  return output;
}

/** Returns the reason in our words, since Bedrock's may quote the capture. */
function reasonOf({ errorCode, errorMessage }: { errorCode: unknown; errorMessage: unknown }): string {
  const { kind, feature } = refusalOf(Number(errorCode) || 400, String(errorMessage));
  return feature === undefined ? kind : `the model refuses ${feature}`;
}
