/** The input of the monitoring state machine, and the options that a run derives from it. */
import * as z from 'zod';
import { instant } from './execution.ts';

const switches = z.object({
  /** `false`: only log the traces. Default `true`. */
  evaluate: z.boolean(),
  /** `true`: judge again traces that already have a verdict, and override the older verdict. Default `false`. */
  reevaluate: z.boolean(),
  /** `true`: plan, count and estimate the cost; write no trace and call no judge. Default `false`. */
  dryRun: z.boolean(),
  /** `batch`: judge by Bedrock batch inference at half the price (for backfills). Default `converse`. */
  judge: z.enum(['converse', 'batch']),
});

/** Maximum that this run may spend on the judge, in US dollars, within the daily budget. Default: no separate limit. */
const budgetUsd = z.number().positive().optional();

/** Options that every kind of execution input accepts. */
/** The chance of every capture to be judged, 0 to 1. Default: the stack's `EVALUATION_SAMPLE_RATE`. */
const sampleRate = z.number().min(0).max(1).optional();

/** Captures that this run judges, spread evenly over all that it finds. Default: as many as its budget pays for. */
const verdicts = z.number().int().positive().optional();

const inputOptionFields = { ...switches.partial().shape, budgetUsd, sampleRate, verdicts };

/** The EventBridge event "Object Created", or the same written manually. The key is raw, not URL-encoded. */
export const objectInputSchema = z.looseObject({
  detail: z.looseObject({
    bucket: z.looseObject({ name: z.string().min(1) }),
    // The event has the ETag of the object as it was written, and its version if the bucket is versioned.
    object: z.looseObject({
      key: z.string().min(1),
      etag: z.string().optional(),
      'version-id': z.string().optional(),
    }),
  }),
  ...inputOptionFields,
});

/** A list of capture files, which the stack's own starter writes for the events of a window. */
export const filesInputSchema = z.strictObject({
  /** Its key in the work bucket, under `starts/`. Each line is a `ListedFile`. */
  files: z.strictObject({ key: z.string().min(1) }),
  ...inputOptionFields,
});

/** A line of the list. */
export const listedFileSchema = z.object({
  bucket: z.string().min(1),
  /** Raw, not URL-encoded. */
  key: z.string().min(1),
  etag: z.string().optional(),
  versionId: z.string().optional(),
});

export type ListedFile = z.infer<typeof listedFileSchema>;

/** All captures under a prefix within a time window; `from` is inclusive, `to` exclusive. */
export const backfillInputSchema = z.strictObject({
  bucket: z.string().min(1),
  prefix: z.string(),
  from: instant.optional(),
  to: instant.optional(),
  ...inputOptionFields,
});

export const RETRY_WHAT = ['failed', 'quarantined', 'held'] as const;
export type RetryWhat = (typeof RETRY_WHAT)[number];

/** The unfinished work of an earlier run. */
export const retryInputSchema = z
  .strictObject({
    retry: z.strictObject({ run: z.string().min(1), what: z.enum(RETRY_WHAT) }),
    ...inputOptionFields,
  })
  .omit({ verdicts: true });

/** The replay whose exchanges a run traces and judges, and the experiment of their traces. */
const replayOfRun = z.strictObject({ run: z.string().min(1), experimentId: z.string().min(1) });

/** The exchanges of a cloud replay, which starts this run itself. Every pair of replies that differ is judged. */
export const exchangesInputSchema = z
  .strictObject({ replay: replayOfRun, ...inputOptionFields })
  .omit({ judge: true, dryRun: true, verdicts: true });

export type ObjectInput = z.infer<typeof objectInputSchema>;
export type FilesInput = z.infer<typeof filesInputSchema>;
export type BackfillInput = z.infer<typeof backfillInputSchema>;
export type RetryInput = z.infer<typeof retryInputSchema>;
export type ExchangesInput = z.infer<typeof exchangesInputSchema>;
export type ExecutionInput = ObjectInput | FilesInput | BackfillInput | RetryInput | ExchangesInput;

/** The options of a run with every default filled in. They travel to every chunk. */
export const runOptionsSchema = switches.extend({
  budgetUsd,
  /** If absent, each range of a file has a chance of its own, or all captures of the run have `chance`. */
  sampleRate,
  verdicts,
  /** The chance that the run's own number of verdicts gives every capture, unless its file was given a larger one. */
  chance: z.number().min(0).max(1).optional(),
  /** Backfill window as epoch milliseconds, `fromMs` inclusive, `toMs` exclusive. */
  window: z.object({ fromMs: z.number().optional(), toMs: z.number().optional() }).optional(),
  /** The version of the key of the run's pseudonyms, which its retries keep. */
  redactKey: z.string().optional(),
  /** In a retry: the runs that it continues, the first run first. Their verdicts are kept. */
  continues: z.array(z.string()).optional(),
  /** The versions of the functions of scorers, by the name of the scorer. Absent: as the settings have them. */
  functions: z.record(z.string(), z.string()).optional(),
  /** The lines are the exchanges of this replay. They count in no rate, objective, metric, or prediction. */
  replay: replayOfRun.optional(),
});

export type RunOptions = z.infer<typeof runOptionsSchema>;
