/** Parts of what several commands print with `--json`. */
import * as z from 'zod';

export const count = z.number().int();
export const estimateSchema = z
  .object({ value: z.number(), low: z.number(), high: z.number() })
  .describe('a figure and its 95% confidence interval');
export const shareSchema = estimateSchema
  .extend({ hits: z.number(), of: z.number() })
  .describe('a share with its 95% confidence interval, and the counts it was made of');
export const spendSchema = z.object({
  calls: count,
  inputTokens: count,
  outputTokens: count,
  usd: z.number().nullable().describe('null: the price is unknown'),
});

export const gateJson = z
  .object({
    outcome: z.enum(['passed', 'failed', 'cannot-tell']),
    exitCode: z.union([z.literal(0), z.literal(1), z.literal(3)]),
    thresholds: z.array(
      z.object({
        threshold: z.string(),
        outcome: z.enum(['passed', 'failed', 'cannot-tell']),
        worse: z.number().nullable().describe('how much worse the second run is; null: unknown'),
        lower: z.number().nullable(),
        upper: z.number().nullable(),
        bound: z.number().describe('the most that is allowed'),
        unit: z.enum(['%', 'points', 'ms', 'tokens/s', 'tokens']),
        seen: z.number(),
        of: z.number(),
        open: z.number().optional(),
        reason: z.string(),
        moreRequests: z.number().nullable().optional().describe('further requests that would probably decide it'),
      }),
    ),
  })
  .describe('the outcome of a release gate');

const reply = z.object({
  key: z.string(),
  eventId: z.string().optional(),
  requestId: z.string().optional(),
  file: z.string(),
  line: count,
  input: z.string(),
  before: z.string(),
  after: z.string(),
});

export const regressionSchema = reply
  .extend({ regressions: z.array(z.string()), overlap: z.number().optional(), rationale: z.string().optional() })
  .describe('a request whose reply got worse');

export const qualitySchema = z
  .object({
    compared: count,
    identical: count,
    same: count,
    status: z.record(z.string(), count),
    texts: count,
    meanOverlap: z.number().nullable(),
    lengthRatio: z.number().nullable(),
    refusals: z.object({ before: count, after: count, new: count, gone: count }),
    json: z.object({ compared: count, broken: count, repaired: count, structureChanged: count, valuesChanged: count }),
    regressions: z.record(z.string(), count),
    regressed: count,
    comparable: z.object({ equal: count, differing: count, emptied: count.optional() }),
    judged: z
      .object({
        better: count,
        same: count,
        worse: count,
        undecided: count,
        failed: count,
        overBudget: count,
        errors: z.record(z.string(), count).optional(),
      })
      .optional(),
  })
  .describe('how the replies differ');
