/** What `ground-truth --json` prints. */
import * as z from 'zod';
import { RUN_STATUSES } from '../operate/run-report.ts';
import { count } from './parts.ts';

const value = z.union([z.string(), z.number(), z.boolean()]);
const named = z.object({ name: z.string(), message: z.string() });
const outcomes = [
  'lines',
  'joined',
  'repeated',
  'replaced',
  'outdated',
  'waiting',
  'unknown',
  'ambiguous',
  'invalid',
] as const;
const counts = z.record(z.enum(outcomes), count).describe('lines is the sum of the others');

const figure = z.object({
  value: z.number().nullable(),
  low: z.number().nullable().describe('of the 95% interval'),
  high: z.number().nullable(),
  why: z.string().optional().describe('why there is no value, or no interval'),
});
const average = z.object({ precision: figure, recall: figure, f1: figure });
const ofGroup = { selectionRate: figure, truePositiveRate: figure };

const figures = z.object({
  group: z.string().describe('the hour, day or variant; all'),
  shadow: z.boolean().optional().describe('the group is a shadow variant'),
  rows: count,
  compared: count,
  notCompared: z.record(z.string(), z.number()),
  measures: z.record(z.string(), figure),
  classes: z
    .object({
      positive: z.string().nullable(),
      each: z.array(average.extend({ class: z.string(), support: count, predicted: count, auc: figure })),
      macro: average,
      weighted: average,
      confusion: z.array(z.object({ label: z.string(), predicted: z.string(), count })),
      scored: z.object({ rows: count, used: count, others: count }),
    })
    .optional(),
  groups: z
    .record(
      z.string(),
      z.array(z.object({ value: z.string(), rows: count, ...ofGroup, difference: z.object(ofGroup).optional() })),
    )
    .optional(),
});

const file = z.object({
  bucket: z.string(),
  key: z.string(),
  etag: z.string(),
  readAt: z.string(),
  counts,
  reasons: z.record(z.string(), z.number()),
  faults: z.array(named.extend({ line: count })).describe('the first ones'),
  replacedLabels: z.array(z.object({ line: count, id: z.string(), from: value, to: value })).describe('the first ones'),
  error: named.optional(),
});

const run = z.object({
  run: z.string(),
  arn: z.string(),
  status: z.enum(RUN_STATUSES),
  error: named.optional(),
  noted: count.describe('labels that the run wrote to MLflow'),
  notNoted: z.record(z.string(), z.number()),
  notedBy: z.string().optional().describe('the run that writes them instead'),
  files: z.array(file),
});

export const groundTruthJson = z.object({
  run: run.nullable().describe('null: no labels were given'),
  waiting: z.object({ labels: count, files: count, since: z.string().nullable(), more: z.boolean() }),
  quality: z
    .object({
      window: z.object({ from: z.string().nullable(), to: z.string().nullable() }),
      by: z.enum(['hour', 'day', 'variant']).nullable(),
      kind: z.enum(['classes', 'numbers', 'texts']),
      why: z.string(),
      threshold: z.number().optional(),
      groups: z.array(figures),
      leftOut: z.record(z.string(), count).describe('labels of shadow variants, by variant, that are in no group'),
    })
    .nullable()
    .describe('null: no prediction has a label'),
});
