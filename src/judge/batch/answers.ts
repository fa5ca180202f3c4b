/** Reads a batch job's output: for each record a Converse reply, or why there is none. */
import type { ConverseCommandOutput } from '@aws-sdk/client-bedrock-runtime';
import * as z from 'zod';
import type { ModelAnswer } from '../model-answer.ts';
import { believed } from '../pricing/call-amounts.ts';
import { MAX_RECORD_TOKENS } from '../prompt/build-prompt.ts';
import { INPUT_MARGIN } from '../prompt/tokens.ts';
import { readOutput } from '../transports/bedrock.ts';

const lineSchema = z.looseObject({
  recordId: z.string(),
  modelOutput: z.looseObject({ stopReason: z.string().optional() }).optional(),
  error: z.looseObject({ errorCode: z.unknown(), errorMessage: z.unknown() }).optional(),
});

/** What an answer is booked at whose usage cannot be: as much captured text as a request can hold, and an answer as long. */
const LONGEST = { inputTokens: MAX_RECORD_TOKENS * INPUT_MARGIN, outputTokens: MAX_RECORD_TOKENS };

/** The answers of one output file by record id. A record that failed, or whose line cannot be read, is not in it. */
export function readBatchAnswers(text: string): Map<string, ModelAnswer> {
  const answers = new Map<string, ModelAnswer>();
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const parsed = lineSchema.safeParse(parse(line));
    if (!parsed.success || parsed.data.modelOutput === undefined || parsed.data.error !== undefined) continue;
    const told = readOutput(parsed.data.modelOutput as unknown as ConverseCommandOutput);
    answers.set(parsed.data.recordId, { ...told, usage: believed({ ...told.usage, batch: true }, LONGEST) });
  }
  return answers;
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
