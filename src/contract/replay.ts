/**
 * What the parts of a replay in the cloud say to each other: the execution's input, the state that travels through its
 * state machine, the manifest of shards, and the keys of the work bucket.
 *
 * Like `contract.ts` it is imported by `lib/`, `lambda/` and `src/`, and imports neither the CDK nor an SDK.
 */
import * as z from 'zod';

const instant = z.iso.datetime({ offset: true });

/** Captures to replay: all `*.jsonl` under a prefix, or one object named whole; `from` is inclusive, `to` exclusive. */
const sourceSchema = z.strictObject({
  /** Default: the bucket and prefix that the stack watches. */
  bucket: z.string().min(1).optional(),
  prefix: z.string().optional(),
  from: instant.optional(),
  to: instant.optional(),
});

/** Where the requests go: an endpoint that `REPLAY_ENDPOINT_NAMES` names, or a URL. */
const targetSchema = z.union([
  z.strictObject({
    endpoint: z.string().min(1),
    variant: z.string().min(1).optional(),
    /** One that `REPLAY_INFERENCE_COMPONENT_NAMES` names: to invoke it is a permission of its own. */
    inferenceComponent: z.string().min(1).optional(),
  }),
  z.strictObject({
    url: z.url({ protocol: /^https?$/ }),
    /** A secret whose value is a JSON object of header names and values; the settings must name it. */
    headersSecretArn: z.string().min(1).optional(),
  }),
]);

/** Options as on the command line; what each means is said at `ReplayOptions`, which also checks the values. */
const optionFields = {
  startOffsetMs: z.number().optional(),
  endOffsetMs: z.number().optional(),
  autoOffset: z.boolean().optional(),
  speedup: z.number().optional(),
  spreadSameSecond: z.enum(['none', 'even', 'poisson']).optional(),
  concurrency: z.number().optional(),
  requestRate: z.number().optional(),
  arrivalPattern: z.enum(['poisson', 'constant']).optional(),
  maxConcurrency: z.number().optional(),
  warmup: z.number().optional(),
  timeout: z.number().optional(),
  cancellationRate: z.number().optional(),
  cancellationDelay: z.number().optional(),
  repeat: z.number().optional(),
  requestCount: z.number().optional(),
  randomSeed: z.number().optional(),
  model: z.string().optional(),
  set: z.array(z.string()).optional(),
  stream: z.boolean().optional(),
  goodput: z.string().optional(),
  sliceDuration: z.number().optional(),
  maxErrorRate: z.number().optional(),
};

/** `aws stepfunctions start-execution --input` of a replay. */
export const replayInputSchema = z.strictObject({
  source: sourceSchema.optional(),
  target: targetSchema,
  ...optionFields,
  /** Match each reply with the captured one. Default `false`. */
  compare: z.boolean().optional(),
  /** Ask the stack's judge about the replies that differ; implies `compare`. Default `false`. */
  judge: z.boolean().optional(),
  /** Most that this replay may spend on the judge, US dollars, within the daily budget; 0: no limit of its own. Default 20. */
  judgeBudgetUsd: z.number().min(0).optional(),
  /** A run in MLflow with figures, parameters and files, and a trace for each request. Default `false`. */
  mlflow: z.boolean().optional(),
  /** Name of the MLflow experiment. Default: that of the captures, with `-replays`. */
  experiment: z.string().min(1).optional(),
  /** Keep requests and replies as they went over the wire. Default `false`. */
  raw: z.boolean().optional(),
  /** Plan, count and estimate; send nothing. Default `false`. */
  dryRun: z.boolean().optional(),
  /** Upper bounds of one shard, below those that a Lambda allows; for tests, and for targets that need more clients. */
  shard: z
    .strictObject({
      seconds: z.number().positive().optional(),
      requests: z.number().int().positive().optional(),
      requestsPerSecond: z.number().positive().optional(),
    })
    .optional(),
});

export type ReplayInput = z.infer<typeof replayInputSchema>;

export interface ReplayExecution {
  name: string;
  arn: string;
  startTime: string;
}

/** What the state machine hands to PlanReplay. */
export interface ReplayPlanRequest {
  input: unknown;
  run: ReplayExecution;
}

/** What PlanReplay returns. */
export interface ReplayPlanResult {
  /** `planned`: run the Map over the manifest; `empty`: there was nothing to send; `dryRun`: summarise. */
  outcome: 'planned' | 'empty' | 'dryRun';
  manifest: { bucket: string; key: string };
  shards: number;
  /** Whether there is anything to be done with the replies once all are there: the judge, or traces in MLflow. */
  evaluate: boolean;
}

/** One line of the manifest of shards: one child of the Map. */
export interface ShardManifestLine {
  run: string;
  /** Ordinal within the run, from 0. */
  shard: number;
  /** ISO 8601, whole seconds, UTC: the child waits until then, so that the shard is warm when its first request is due. */
  waitUntil: string;
}

/** What the Map hands to ReplayShard; everything else about the shard is in the work bucket. */
export interface ReplayShardRequest {
  run: string;
  shard: number;
}

export const replayShardRequestSchema: z.ZodType<ReplayShardRequest> = z.object({
  run: z.string().min(1),
  shard: z.number().int().min(0),
});

/** What the second Map hands to EvaluateReplay, over the same manifest: one call after another until it is done. */
export type EvaluateReplayRequest = ReplayShardRequest;

/** What EvaluateReplay returns; the counts are those of the whole shard so far. */
export interface EvaluateReplayResult {
  /** `false`: call it again, there is more than one function has time for. */
  done: boolean;
  shard: number;
  traces: number;
  judged: number;
}

/** What the state machine hands to SummarizeReplay. `error` is there when planning or the Map itself failed. */
export interface SummarizeReplayRequest {
  run: ReplayExecution;
  error?: Raised;
}

/** What stopped a step of a state machine, as its Catch hands it on. */
const raisedSchema = z.object({ Error: z.string(), Cause: z.string().default('') });

export type Raised = z.infer<typeof raisedSchema>;

/** What SummarizeReplay returns: the state machine fails with `error` and `cause` when `ok` is false. */
export interface SummarizeReplayResult {
  ok: boolean;
  error: string;
  cause: string;
  /** Folder of the result set in the work bucket. */
  results: { bucket: string; prefix: string };
  /** Whether there is a run in MLflow that waits for its figures and files: PublishReplay is next. */
  publish: boolean;
}

/**
 * An execution of a replay that has ended, as EventBridge tells StopReplay of it ("Step Functions Execution Status Change"),
 * and `inference-monitor stop` where EventBridge has not.
 */
export const endedExecutionSchema = z.object({
  detail: z.object({
    executionArn: z.string().regex(/^arn:[^:]+:states:[^:]+:[^:]+:execution:[^:]+:[^:]+$/),
    status: z.enum(['ABORTED', 'TIMED_OUT', 'FAILED']),
    /** Epoch ms. */
    startDate: z.number().optional(),
    /** Of executions that failed. */
    error: z.string().nullish(),
    cause: z.string().nullish(),
  }),
});

export type EndedExecution = z.infer<typeof endedExecutionSchema>;

/** What StopReplay returns. */
export interface StopReplayResult {
  /** `empty`: nothing was to be sent, and there is nothing to summarise; `summarized`: the results are there. */
  end: 'empty' | 'summarized';
}

/** What the state machine hands to PublishReplay. */
export interface PublishReplayRequest {
  run: ReplayExecution;
}

/**
 * What is handed to the same function when a step failed for good that the end of the run in MLflow comes after, PublishReplay
 * included: by the state machine with the replay's input, by StopReplay without.
 */
export const endReplayRunRequestSchema = z.object({
  run: z.object({ name: z.string().min(1), arn: z.string() }),
  unfinished: raisedSchema,
  input: z.unknown().optional(),
});

export type EndReplayRunRequest = z.infer<typeof endReplayRunRequestSchema>;

/** What it returns then. */
export interface EndReplayRunResult {
  /** `null`: the replay has no run in MLflow. */
  runId: string | null;
  /** What the run's status is now. */
  status: string | null;
}

/** What PublishReplay returns. */
export interface PublishReplayResult {
  experiment: { id: string; name: string };
  runId: string;
  /** Files of the result set that were not put into MLflow, each with the reason. */
  leftOut: string[];
}

/**
 * Most shards of a replay. A child that waits holds a place of the Map, so the Map's concurrency is this; 1,000 is also
 * the number of Lambdas that an account runs at once unless it has asked for more.
 */
export const MAX_SHARDS = 1000;

/** Time limit of the function that runs a shard, Lambda's own; a shard with its slowest replies has to end before it. */
export const REPLAYER_TIMEOUT_SECONDS = 900;

/**
 * Disk (`/tmp`) of the functions that plan, send and summarise. A shard keeps its files there until it ends, 1.8 GB at most
 * (`SHARD_FILE_BYTES`); PlanReplay sorts 10 million places of 32 bytes there, SummarizeReplay puts `inputs.json` together.
 */
export const REPLAY_DISK_MIB = 2048;

const SHARD_DIGITS = 4;
const pad = (shard: number): string => String(shard).padStart(SHARD_DIGITS, '0');

/** Keys of a replay in the work bucket. */
export const replayKeys = {
  prefix: (run: string) => `replays/${run}/`,
  /** What was planned: the options, the target, the common clock start, the shards. */
  plan: (run: string) => `replays/${run}/plan.json`,
  manifest: (run: string) => `replays/${run}/manifest.jsonl`,
  /** The requests of one shard: where each is in S3, and when it is due. */
  schedule: (run: string, shard: number) => `replays/${run}/schedule/${pad(shard)}.jsonl`,
  schedulePrefix: (run: string) => `replays/${run}/schedule/`,
  /** Written once, before a shard's first request. */
  claim: (run: string, shard: number) => `replays/${run}/claims/${pad(shard)}.json`,
  claimPrefix: (run: string) => `replays/${run}/claims/`,
  /** Where it is, nothing more of the run is sent; what it says is for people. */
  stop: (run: string) => `replays/${run}/stop.json`,
  /** The files of one shard. */
  shardPrefix: (run: string, shard: number) => `replays/${run}/shards/${pad(shard)}/`,
  shardsPrefix: (run: string) => `replays/${run}/shards/`,
  mapResultPrefix: (run: string) => `replays/${run}/map`,
  /** What EvaluateReplay has done of one shard: how far it is, and the judge's verdicts. */
  evaluationPrefix: (run: string, shard: number) => `replays/${run}/evaluations/${pad(shard)}/`,
  evaluationsPrefix: (run: string) => `replays/${run}/evaluations/`,
  evaluationMapResultPrefix: (run: string) => `replays/${run}/evaluation-map`,
  /** Metrics, parameters and end of the MLflow run, from SummarizeReplay for PublishReplay. */
  publication: (run: string) => `replays/${run}/publication.json`,
  /** The merged result set, with the names that the command line gives its files. */
  resultPrefix: (run: string) => `replays/${run}/results/`,
  /** Of the result set: the options, the counts, what is missing. */
  figures: (run: string) => `replays/${run}/results/replay.json`,
};
