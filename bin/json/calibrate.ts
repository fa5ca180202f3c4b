/** What `calibrate --json` prints or writes. */
import * as z from 'zod';
import { count, estimateSchema, shareSchema, spendSchema } from './parts.ts';

const value = z.union([z.string(), z.number(), z.boolean()]);
const share = shareSchema.nullable();
const estimate = estimateSchema.nullable();
const classFigures = z.object({
  value: z.string(),
  support: z.number(),
  sensitivity: share,
  specificity: share,
  precision: share,
  f1: z.number().nullable(),
});

const pair = z.object({
  id: z.string(),
  scorer: z.string(),
  label: value,
  labelRationale: z.string().optional(),
  verdict: value,
  verdictRationale: z.string().optional(),
  agrees: z.boolean(),
  weight: z.number().optional(),
  traceId: z.string().optional(),
  inferenceMs: z.number().optional(),
  variant: z.string().optional(),
  judge: z.string().optional(),
  request: z.string(),
  reply: z.string(),
});

const drift = z.object({
  baseline: z.object({ generatedAt: z.string(), judges: z.record(z.string(), count) }),
  items: count,
  changed: z.array(z.object({ id: z.string(), scorer: z.string(), label: value, before: value, now: value })),
  agreementBefore: share,
  agreementNow: share,
  pValue: z.number(),
  onlyInBaseline: count,
  onlyNow: count,
  verdict: z.enum(['none', 'changed', 'drifted']),
});

export const calibrateJson = z.object({
  generatedAt: z.iso.datetime(),
  source: z.object({ kind: z.enum(['mlflow', 'labels', 'anchors', 'groundTruth']), where: z.string() }),
  judges: z.record(z.string(), count).describe('verdicts by judge'),
  overall: z.object({ n: count, agreement: share }),
  scorers: z.array(
    z.object({
      name: z.string(),
      version: z.string().optional(),
      values: z.union([
        z.object({ kind: z.enum(['yes-no', 'boolean']) }),
        z.object({ kind: z.literal('categories'), values: z.array(z.string()).readonly() }),
        z.object({ kind: z.literal('number'), min: z.number(), max: z.number() }),
      ]),
      n: count,
      agreement: share,
      kappa: estimate,
      weightedKappa: estimate,
      positive: z.string().optional(),
      tpr: share,
      tnr: share,
      positiveShare: z.object({ people: share, judge: share }),
      classes: z.array(classFigures),
      confusion: z.object({ values: z.array(z.string()), counts: z.array(z.array(z.number())) }).nullable(),
      numbers: z
        .object({
          meanLabel: z.number(),
          meanVerdict: z.number(),
          meanAbsoluteError: z.number(),
          correlation: z.number().nullable(),
        })
        .nullable(),
      unanswered: z.record(z.string(), count),
      notes: z.array(z.string()),
    }),
  ),
  pairs: z.array(pair).describe('each label with the verdict beside it'),
  unanswered: z.array(z.object({ id: z.string(), scorer: z.string(), reason: z.string(), message: z.string() })),
  spend: spendSchema.optional(),
  drift: drift.optional(),
});
