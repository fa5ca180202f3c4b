/** What `compare --json` prints: `comparison.json`, or with `--plan` the sizes that the thresholds need. */
import * as z from 'zod';
import { STATISTICS } from '../../src/replay/compare/differences.ts';
import { METRIC_TAGS } from '../../src/replay/compare/run-data.ts';
import { count, gateJson, qualitySchema, regressionSchema } from './parts.ts';

const difference = z
  .object({
    before: z.number(),
    after: z.number(),
    difference: z.number(),
    relative: z.number().nullable(),
    low: z.number().nullable().describe('null: too few values for an interval'),
    high: z.number().nullable(),
    significant: z.boolean(),
    tooFew: z.literal(true).optional(),
  })
  .describe('after − before, with its 95% confidence interval');

const run = z.object({
  run: z.string(),
  directory: z.string(),
  target: z.record(z.string(), z.string()),
  requests: count,
  failed: count,
  cancelledOnPurpose: count,
  mlflow: z.object({ experimentId: z.string(), url: z.string().optional() }).optional(),
});

const throughput = z.tuple([z.number(), z.number()]).optional().describe('before and after, per second');

export const comparisonJson = z.object({
  before: run,
  after: run,
  paired: z.object({
    requests: count,
    cancelled: count,
    newlyFailing: count,
    newlySucceeding: count,
    onlyBefore: count,
    onlyAfter: count,
  }),
  metrics: z.partialRecord(z.enum(METRIC_TAGS), z.record(z.enum(STATISTICS), difference)),
  errorRate: difference,
  requestThroughput: throughput,
  tokenThroughput: throughput,
  quality: qualitySchema.optional(),
  regressions: z.array(regressionSchema),
  slowed: z.array(z.object({ key: z.string(), before: z.number(), after: z.number() })),
  notes: z.array(z.string()),
  judgeUsd: z.number().nullable().optional().describe('US dollars; null: the price is unknown'),
  judgeFailure: z.object({ name: z.string(), message: z.string() }).optional(),
  gate: gateJson.optional(),
});

export const planJson = z.object({
  thresholds: z.array(
    z.object({
      threshold: z.string(),
      requests: count.nullable().describe('requests that both runs must have in common; null: no size suffices'),
      unchanged: z.string(),
      note: z.string().optional(),
      enough: z.boolean().optional(),
    }),
  ),
  requests: count.nullable(),
  captures: count.optional(),
  judge: z
    .object({
      pairs: count.nullable(),
      usdPerPair: z.number().nullable(),
      usd: z.number().nullable(),
      model: z.string(),
      basis: z.string(),
    })
    .optional(),
});

export const compareJson = comparisonJson.or(planJson);
