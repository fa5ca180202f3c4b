/** What `inspect` and `judge` print as JSON: the reports about capture files, which need no stack. */
import * as z from 'zod';

const count = z.int().min(0);
/** US dollars; `null` if a price is unknown. */
const usd = z.number().nullable();

const placeSchema = z.object({
  file: z.string(),
  /** Physical line number, from 1. */
  line: z.int().min(1),
});

const counted = {
  count,
  /** The first places. */
  at: z.array(placeSchema),
};

const costSchema = z.object({
  captures: count,
  judgedCaptures: count,
  judgeCalls: count,
  inputTokens: count,
  outputTokens: count,
  usd,
  model: z.string(),
  basis: z.string(),
});

/** Files that cannot be read, or not to their end. */
const unreadable = z.array(z.object({ file: z.string(), message: z.string() }));

export const inspectSchema = z.object({
  files: count,
  /** Files that are compressed, or named *.gz, which the stack does not read. */
  gzip: count,
  /** On the disk. */
  bytes: count,
  /** Lines that are not blank: captures, duplicates, quarantined ones and those that are not tried. */
  lines: count,
  /** Different captures: those that would be traced. */
  captures: count,
  duplicates: count,
  /** By reason, with the first lines and what is wrong with each. */
  quarantined: z.array(z.object({ name: z.string(), count, at: z.array(placeSchema.extend({ message: z.string() })) })),
  unreadable,
  /** Lines that a function with its own memory would try out. */
  needTrial: z.object(counted),
  /** Those of `needTrial` that are not even read here. They are neither captures nor quarantined. */
  untried: count,
  /** Captured times, ISO 8601. */
  times: z.object({ first: z.string(), last: z.string() }).optional(),
  formats: z.array(
    z.object({
      format: z.string(),
      wireFormat: z.string().optional(),
      captures: count,
      streamed: count,
      errorReplies: count,
    }),
  ),
  /** Captures by the model that they name. */
  models: z.record(z.string(), count),
  /** Captures whose endpoint reported tokens, and their sums. */
  usage: z.object({ captures: count, inputTokens: z.number(), outputTokens: z.number() }),
  notes: z.array(z.object({ ...counted, note: z.string() })),
  /** By scorer, the captures that it applies to, and the others by the reason. */
  scorers: z.array(
    z.object({ name: z.string(), kind: z.enum(['judge', 'code']), captures: count, not: z.record(z.string(), count) }),
  ),
  cost: costSchema,
});

/** As in src/captures/trace/types.ts. */
const times = { startTimeMs: z.number(), endTimeMs: z.number() };
const spanSchema = z.object({
  spanId: z.string(),
  parentSpanId: z.string().optional(),
  name: z.string(),
  spanType: z.string(),
  ...times,
  inputs: z.unknown().optional(),
  outputs: z.unknown().optional(),
  attributes: z.record(z.string(), z.unknown()),
  status: z.object({ code: z.enum(['OK', 'ERROR']), message: z.string().optional() }),
});

const traceSchema = z.object({
  name: z.string(),
  ...times,
  state: z.enum(['OK', 'ERROR']),
  clientRequestId: z.string().optional(),
  requestPreview: z.string(),
  responsePreview: z.string(),
  tags: z.record(z.string(), z.string()),
  sessionId: z.string().optional(),
  userId: z.string().optional(),
  tokenUsage: z.record(z.string(), z.number().optional()).optional(),
  model: z.string().optional(),
  spans: z.array(spanSchema),
});

export const lineSchema = placeSchema.extend({
  /** The line needs more memory than is certain: a function tries it out. Without a trace it is not read here. */
  needsTrial: z.literal(true).optional(),
  quarantined: z.object({ name: z.string(), message: z.string() }).optional(),
  /** As it is written to MLflow, without the ids, which depend on the experiment. */
  trace: traceSchema.optional(),
  format: z.string().optional(),
  wireFormat: z.string().optional(),
  notes: z.array(z.string()).optional(),
  /** By name: `null`, or why the scorer does not apply. */
  scorers: z.record(z.string(), z.string().nullable()).optional(),
  /** Expected for the judge. */
  judgeUsd: usd.optional(),
});

const shareSchema = z.object({ value: z.number(), low: z.number(), high: z.number(), hits: count, of: count });

export const judgeSchema = z.object({
  /** The id of the judge; absent if only code scorers ran. */
  judge: z.string().optional(),
  captures: count,
  verdicts: z.array(
    placeSchema.extend({
      scorer: z.string(),
      value: z.union([z.string(), z.number(), z.boolean()]).optional(),
      /** Absent if no value of the scorer is a failure, and for an error. */
      passes: z.boolean().optional(),
      rationale: z.string().optional(),
      error: z.object({ code: z.string(), message: z.string() }).optional(),
      usd,
      /** The beginning of what was asked and of the reply. */
      request: z.string(),
      reply: z.string(),
    }),
  ),
  scorers: z.array(
    z.object({
      name: z.string(),
      kind: z.enum(['judge', 'code']),
      verdicts: count,
      /** The share that passes with its 95% interval; `null` without verdicts, or if no value is a failure. */
      passes: shareSchema.nullable(),
      /** Verdicts by value, for the first values. Numbers have their mean and extremes instead. */
      values: z.record(z.string(), count),
      numbers: z.object({ mean: z.number(), min: z.number(), max: z.number() }).optional(),
      /** Captures that the scorer applies to and that have no verdict of it. */
      missing: count,
      usd,
    }),
  ),
  /** Verdicts that are missing, by reason: an error of the judge, `held` by the budget, `notAsked` after a failure. */
  missing: z.record(z.string(), count),
  /** Scorers that do not apply to a capture, by reason, over all captures. */
  notJudgeable: z.record(z.string(), count),
  spend: z.object({ calls: count, inputTokens: z.number(), outputTokens: z.number(), usd }),
  unreadable,
  thresholds: z.array(z.object({ scorer: z.string(), atLeast: z.number(), holds: z.boolean() })),
  /** What ended the judging early. */
  failure: z.object({ name: z.string(), message: z.string() }).optional(),
});

export type Place = z.infer<typeof placeSchema>;
export type InspectReport = z.infer<typeof inspectSchema>;
export type LineReport = z.input<typeof lineSchema>;
export type JudgeReport = z.infer<typeof judgeSchema>;
