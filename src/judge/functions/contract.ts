/** The request to a scorer function and its reply, as JSON. `schemas/` has both as JSON Schema. */
import * as z from 'zod';

/** Records of one invocation. */
export const MAX_RECORDS = 50;
/** Bytes of a request. Lambda takes 6 MB. */
export const MAX_REQUEST_BYTES = 4_000_000;
/** Bytes of a reply. */
export const MAX_REPLY_BYTES = 1_000_000;
/** Bytes of the words of one side of a record. Longer texts are cut. */
export const MAX_SIDE_BYTES = 256 * 1024;

const message = z.looseObject({ role: z.string(), content: z.unknown() });
const side = z.object({
  messages: z.array(message).describe('The messages of a chat, as they were captured. Empty if the body is no chat.'),
  text: z.string().describe('The words: of the last prompt, or of the reply.'),
});

export const scorerRecordSchema = z.object({
  traceId: z.string(),
  time: z.iso.datetime().describe('When the endpoint was invoked.').optional(),
  variant: z.string().optional(),
  request: side.describe('Absent if it was not captured.').optional(),
  reply: side.describe('Absent if it was not captured.').optional(),
  durationMs: z.number().min(0).optional(),
  firstTokenMs: z.number().min(0).optional(),
  tokens: z.object({ input: z.number().min(0).optional(), output: z.number().min(0).optional() }).optional(),
  expectation: z.string().describe('Only if the record has a label with an expectation.').optional(),
  cut: z
    .array(z.enum(['request', 'reply']))
    .describe(`Sides with texts that were cut, because they had more than ${MAX_SIDE_BYTES} bytes.`)
    .optional(),
});

export const scorerRequestSchema = z.object({
  scorer: z.string().describe('The name in SCORER_FUNCTIONS.'),
  records: z.array(scorerRecordSchema).min(1).max(MAX_RECORDS),
});

const errorSchema = z.object({ name: z.string(), message: z.string() });

export const scorerResultSchema = z.union([
  z.object({ error: errorSchema.describe('Why the record has no value.') }),
  z.object({
    value: z.union([z.number(), z.boolean(), z.string()]),
    rationale: z.string().optional(),
    usd: z.number().min(0).describe('The cost of this record, in US dollars.').optional(),
    name: z.string().describe('The name of the scorer. Another name than the asked one is an error.').optional(),
  }),
]);

export const scorerReplySchema = z.union([
  z.object({ error: errorSchema.describe('The function does not have the scorer.') }),
  z.object({ results: z.array(scorerResultSchema).describe('As many as there are records, in their order.') }),
]);

export type ScorerRecord = z.infer<typeof scorerRecordSchema>;
export type ScorerRequest = z.infer<typeof scorerRequestSchema>;
