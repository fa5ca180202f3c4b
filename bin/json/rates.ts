/** What `rates --json` prints. */
import * as z from 'zod';
import { count, estimateSchema } from './parts.ts';

const covered = z
  .number()
  .nullable()
  .describe('captures that the corrected share is of, if labels speak for a part of them; else null');

const correction = z.object({
  share: z.number().nullable().describe('the share that people would pass; null where their labels do not tell it'),
  low: z.number().nullable(),
  high: z.number().nullable(),
  method: z.string().describe('how labels corrected it; computed: no judge was asked'),
});

const rate = correction.extend({
  scorer: z.string(),
  is: z.string().optional().describe('the value whose share it is; absent for the mean of numbers'),
  n: z.number().describe('verdicts'),
  captures: z.number().describe('captures that could be judged'),
  judge: z
    .object({ value: z.number(), low: z.number().nullable(), high: z.number().nullable() })
    .nullable()
    .describe('the share or mean by the judge; null without verdicts; without ends for a mean of too few'),
  labels: count,
  covered,
  trend: z.array(z.number().nullable()),
  values: z.record(z.string(), z.number()),
});

const group = z.object({
  group: z.string(),
  shadow: z.boolean().optional().describe('the group is a shadow variant'),
  rates: z.array(rate),
  totals: z.object({
    captures: z.number().optional(),
    errorReplies: z.number().optional(),
    inputTokens: z.number().optional(),
    outputTokens: z.number().optional(),
    judgeUsd: z.number().optional(),
    notJudged: z.record(z.string(), z.number()).optional(),
  }),
});

export const ratesJson = z.object({
  window: z.object({ from: z.iso.datetime(), to: z.iso.datetime() }),
  by: z.enum(['variant', 'hour', 'day']).optional(),
  groups: z.array(group),
  shadow: z.array(group).describe('shadow variants, which are in no other group'),
  compared: z
    .object({
      before: z.string(),
      after: z.string(),
      differences: z.array(correction.extend({ scorer: z.string(), is: z.string(), judge: estimateSchema, covered })),
    })
    .optional(),
  warnings: z.array(z.string()),
});
