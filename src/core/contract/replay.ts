/**
 * The input of the replay state machine, and the requests and results that travel between it and its functions.
 */
import * as z from 'zod';
import { type Execution, instant, type ObjectPlace, raisedSchema } from './execution.ts';

/** The captures to replay: all `*.jsonl` under a prefix, or one object by its full key; `from` is inclusive, `to` exclusive. */
const sourceSchema = z.strictObject({
  /** Default: the bucket and prefix that the stack watches. */
  bucket: z.string().min(1).optional(),
  prefix: z.string().optional(),
  from: instant.optional(),
  to: instant.optional(),
});

/** The target of the requests: an endpoint that `REPLAY_ENDPOINT_NAMES` names, or a URL. */
const targetSchema = z.union([
  z.strictObject({
    endpoint: z.string().min(1),
    variant: z.string().min(1).optional(),
    /** `REPLAY_INFERENCE_COMPONENT_NAMES` must name it: invoking it needs a separate permission. */
    inferenceComponent: z.string().min(1).optional(),
  }),
  z.strictObject({
    url: z.url({ protocol: /^https?$/ }),
    /** A secret whose value is a JSON object of header names and values. It must be named in the settings. */
    headersSecretArn: z.string().min(1).optional(),
  }),
]);

/** Description of a valid value, for error messages. */
const PERCENT = 'percent, 0 to 100';
const OFFSET = 'milliseconds, 0 or more';
const DELAY = 'seconds, 0 to 2147483';
const WHOLE = 'a whole number';
const POSITIVE = 'a whole number above 0';

const percent = z.number().min(0, PERCENT).max(100, PERCENT);
const offset = z.number().min(0, OFFSET).optional();
const whole = z.int(WHOLE).min(0, WHOLE);
const positive = z.int(POSITIVE).positive(POSITIVE);

/** The options of the command line, by the same names, with their defaults. `checkedOptions` checks them together. */
const optionFields = {
  /** Milliseconds after the first record, inclusive. */
  fixedScheduleStartOffset: offset,
  fixedScheduleEndOffset: offset,
  /** The first request in the window is sent immediately. */
  fixedScheduleAutoOffset: z.boolean().default(false),
  speedup: z.number().positive('a number above 0').default(1),
  spreadSameSecond: z.enum(['none', 'even', 'poisson']).default('none'),
  /** Without a schedule: the constant number of requests in flight. */
  concurrency: positive.optional(),
  /** Without a schedule: the number of requests per second. */
  requestRate: z.number().positive('requests per second, above 0').optional(),
  /** Most requests in flight. */
  maxConcurrency: positive.optional(),
  warmup: whole.default(0),
  /** Seconds. SageMaker limits a reply to 60 seconds, and a streamed reply to 8 minutes. */
  timeout: z.number().positive('seconds, above 0').default(600),
  /** Percentage of the requests that are canceled. */
  requestCancellationRate: percent.default(0),
  /** The seconds after which they are. A timer can wait for at most 2^31 ms. */
  requestCancellationDelay: z.number().min(0, DELAY).max(2_147_483, DELAY).default(0),
  repeat: positive.default(1),
  requestCount: positive.optional(),
  randomSeed: whole.default(0),
  model: z.string().optional(),
  /** Entries `key.path=value`. A value that is not JSON is a string. */
  set: z.array(z.string()).readonly().default([]),
  stream: z.boolean().default(false),
  /** `tag:threshold …`, in AIPerf's syntax. */
  goodput: z.string().optional(),
  /** Percentage of failed requests above which the replay fails. */
  maxErrorRate: percent.default(100),
};

export const replayOptionsSchema = z.object(optionFields);

/** The options, with all defaults filled in. */
export type ReplayOptions = z.output<typeof replayOptionsSchema>;

/** The `--input` of `aws stepfunctions start-execution`. */
export const replayInputSchema = z.strictObject({
  source: sourceSchema.optional(),
  target: targetSchema,
  ...optionFields,
  /** Compare each reply with the captured one. Default `false`. */
  compare: z.boolean().optional(),
  /** Ask the stack's judge about the replies that differ; implies `compare` and `mlflow`. Default `false`. */
  judge: z.boolean().optional(),
  /**
   * Maximum that this replay may spend on the judge, in US dollars, within the daily budget; 0: no separate limit.
   * Default 20.
   */
  judgeBudgetUsd: z.number().min(0).optional(),
  /** Create an MLflow run with figures, parameters and files, and a trace for each request. Default `false`. */
  mlflow: z.boolean().optional(),
  /** Name of the MLflow experiment. Default: the experiment of the captures, with the suffix `-replays`. */
  experiment: z.string().min(1).optional(),
  /** Plan, count and estimate without sending requests. Default `false`. */
  dryRun: z.boolean().optional(),
  /** Upper bounds of one shard, below the limits of a Lambda. For tests, and for targets that need more clients. */
  shard: z
    .strictObject({
      seconds: z.number().positive().optional(),
      requests: z.number().int().positive().optional(),
      requestsPerSecond: z.number().positive().optional(),
    })
    .optional(),
});

export type ReplayInput = z.input<typeof replayInputSchema>;

/** The request to PlanReplay. */
export interface ReplayPlanRequest {
  input: unknown;
  run: Execution;
}

/** The result of PlanReplay. */
export interface ReplayPlanResult {
  /** `planned`: run the Map over the manifest; `empty`: nothing to send; `dryRun`: summarize. */
  outcome: 'planned' | 'empty' | 'dryRun';
  manifest: ObjectPlace;
  shards: number;
}

/** One line of the manifest of shards, for one child of the Map. */
export interface ShardManifestLine {
  run: string;
  /** Ordinal within the run, from 0. */
  shard: number;
  /** ISO 8601, whole seconds, UTC. The child waits until then, so that its function is warm before the first request. */
  waitUntil: string;
}

/** The request of the Map to ReplayShard. Everything else about the shard is in the work bucket. */
export const replayShardRequestSchema = z.object({
  run: z.string().min(1),
  shard: z.number().int().min(0),
});

export type ReplayShardRequest = z.infer<typeof replayShardRequestSchema>;

/** The request to SummarizeReplay at the end of an execution. */
const summarizeReplayRequestSchema = z.object({
  run: z.object({ name: z.string().min(1) }),
  /** Present if planning or the Map itself failed. */
  error: raisedSchema.optional(),
});

export type SummarizeReplayRequest = z.infer<typeof summarizeReplayRequestSchema>;

/** The result of SummarizeReplay. The state machine fails with `error` and `cause` if `ok` is false. */
export interface SummarizeReplayResult {
  ok: boolean;
  error: string;
  cause: string;
  /** Folder of the result set in the work bucket. */
  results: { bucket: string; prefix: string };
  /** The run of the monitoring that traces and judges the exchanges, if one was started. */
  monitoringRun?: string;
  /** The replay's MLflow run, and the files of the result set that are not in it, each with the reason. */
  mlflow?: { experiment: { id: string; name: string }; runId: string; leftOut: string[] };
}

/**
 * The EventBridge event "Step Functions Execution Status Change" of a replay that did not succeed: another request to
 * SummarizeReplay. `inference-monitor stop` sends the same if EventBridge has not.
 */
export const endedExecutionSchema = z.object({
  detail: z.object({
    executionArn: z.string().regex(/^arn:[^:]+:states:[^:]+:[^:]+:execution:[^:]+:[^:]+$/),
    status: z.enum(['ABORTED', 'TIMED_OUT', 'FAILED']),
    /** Only present if the execution failed. */
    error: z.string().nullish(),
    cause: z.string().nullish(),
  }),
});

export type EndedExecution = z.infer<typeof endedExecutionSchema>;

export const replayEndSchema = z.union([endedExecutionSchema, summarizeReplayRequestSchema]);

/**
 * Maximum number of shards of a replay. It is also the Map's concurrency, because a waiting child occupies a slot.
 * 1,000 is the default limit of an account for concurrent Lambda invocations.
 */
export const MAX_SHARDS = 1000;

/**
 * Disk (`/tmp`) of the functions that plan and send. A shard keeps its files there until it ends: at most 1.8 GB if
 * replies are as large as the captured replies. Larger replies have no limit of their own. A full disk ends the shard.
 * The disk costs 0.01 cents for each shard of 15 minutes.
 */
export const REPLAY_DISK_MIB = 4096;
