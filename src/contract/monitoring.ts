/**
 * What the parts of the pipeline say to each other: the execution's input, the state that travels through the
 * state machine, the manifest, the receipts, and the keys of the work bucket.
 *
 * Both `lib/` (infrastructure) and `src/` (what runs) import this file; it imports neither the CDK nor an SDK.
 */
import * as z from 'zod';

// ---------------------------------------------------------------------------------------------- execution input

/** An ISO 8601 instant with an offset, e.g. `2026-11-20T09:00:00Z`. */
const instant = z.iso.datetime({ offset: true });

/** Switches that every kind of execution input may carry. */
const runOptionFields = {
  /** `false`: log the traces only. Default `true`. */
  evaluate: z.boolean().optional(),
  /** `true`: judge anew what already has a verdict, and override the older verdict. Default `false`. */
  reevaluate: z.boolean().optional(),
  /** Share of the traces that is judged, 0 to 1. Default: the stack's `EVALUATION_SAMPLE_RATE`. */
  sampleRate: z.number().min(0).max(1).optional(),
  /** `true`: plan, count and estimate the cost; write no trace and ask no judge. Default `false`. */
  dryRun: z.boolean().optional(),
  /** Most that this run may spend on the judge, in US dollars, within the daily budget. Default: no limit of its own. */
  budgetUsd: z.number().positive().optional(),
  /** `batch`: judge by Bedrock batch inference at half the price (for backfills). Default `converse`. */
  judge: z.enum(['converse', 'batch']).optional(),
};

/** The EventBridge "Object Created" event, or the same written by hand. The key is raw, not URL-encoded. */
export const objectInputSchema = z.looseObject({
  detail: z.looseObject({
    bucket: z.looseObject({ name: z.string().min(1) }),
    // Of a versioned bucket the event names the version; of any, what the file was when it was written.
    object: z.looseObject({
      key: z.string().min(1),
      etag: z.string().optional(),
      'version-id': z.string().optional(),
    }),
  }),
  ...runOptionFields,
});

/** All captures under a prefix within a time window; `from` is inclusive, `to` exclusive. */
export const backfillInputSchema = z.strictObject({
  bucket: z.string().min(1),
  prefix: z.string(),
  from: instant.optional(),
  to: instant.optional(),
  ...runOptionFields,
});

const RETRY_WHAT = ['failed', 'quarantined', 'held'] as const;
export type RetryWhat = (typeof RETRY_WHAT)[number];

/** What an earlier run left undone. */
export const retryInputSchema = z.strictObject({
  retry: z.strictObject({ run: z.string().min(1), what: z.enum(RETRY_WHAT) }),
  ...runOptionFields,
});

export type ObjectInput = z.infer<typeof objectInputSchema>;
export type BackfillInput = z.infer<typeof backfillInputSchema>;
export type RetryInput = z.infer<typeof retryInputSchema>;
export type ExecutionInput = ObjectInput | BackfillInput | RetryInput;

/** The options of a run with every default filled in; they travel to every chunk. */
export interface RunOptions {
  evaluate: boolean;
  reevaluate: boolean;
  sampleRate: number;
  dryRun: boolean;
  judge: 'converse' | 'batch';
  budgetUsd?: number;
  /** Of a retry: the run whose answers of the judge are taken before it is asked; by default the run's own. */
  answersOf?: string;
  /** Backfill window as epoch milliseconds, `from` inclusive, `to` exclusive. */
  window?: { fromMs?: number; toMs?: number };
  /** Runs with `reevaluate` that this one retries: what they have judged is judged. */
  continues?: string[];
}

// ------------------------------------------------------------------------------------------------------- manifest

/** One line of the manifest: a run of capture lines that one child of the Map handles. */
export interface ManifestLine {
  bucket: string;
  key: string;
  versionId?: string;
  /** Without the quotes that S3 puts around it. Passed as `If-Match` on every read. */
  etag: string;
  /** First byte, inclusive. */
  start: number;
  /** Last byte, inclusive. */
  end: number;
  /** Physical number of the first line in the file, from 1; blank lines count. */
  firstLine: number;
  /** Non-blank lines in the range. */
  lines: number;
  /** Ordinal of the chunk within the run, from 0. */
  chunk: number;
  experimentId: string;
  /** S3's LastModified of the object, epoch milliseconds: the last resort for a record without a time. */
  objectTimeMs: number;
  /** Quarantine object with the lines' bytes, which is read where the capture file is gone. */
  keptIn?: string;
}

const manifestLineSchema: z.ZodType<ManifestLine> = z.object({
  bucket: z.string().min(1),
  key: z.string().min(1),
  versionId: z.string().optional(),
  etag: z.string().min(1),
  start: z.number().int().min(0),
  end: z.number().int().min(0),
  firstLine: z.number().int().min(1),
  lines: z.number().int().min(0),
  chunk: z.number().int().min(0),
  experimentId: z.string().min(1),
  objectTimeMs: z.number(),
  keptIn: z.string().optional(),
});

// ---------------------------------------------------------------------------------------- state machine payloads

/** What the state machine hands to PlanCaptures, for the first part and for each further one. */
export interface PlanRequest {
  input: unknown;
  run: { name: string; arn: string; startTime: string };
  /** Number of this part, from 0. */
  part: number;
  /** First chunk ordinal of this part. */
  nextChunk: number;
  /** Where the part before stopped; `null` or empty for the first part. Opaque to the state machine. */
  cursor: string | null;
}

/** What PlanCaptures returns. `outcome` decides where the state machine goes. */
export interface PlanResult {
  /** `planned`: run the Map over the manifest; `empty`: nothing to run in this part; `duplicate`, `dryRun`: summarise. */
  outcome: 'planned' | 'empty' | 'duplicate' | 'dryRun';
  part: number;
  nextPart: number;
  nextChunk: number;
  manifest: { bucket: string; key: string };
  options: RunOptions;
  /** More parts follow. */
  more: boolean;
  cursor: string | null;
}

/** What the Map hands to LogTraces and EvaluateTraces for one chunk. */
export interface ChunkRequest {
  run: string;
  chunk: ManifestLine;
  options: RunOptions;
  /** Step Functions' retry count of this state, from 0. */
  attempt: number;
  /** With batch inference evaluation has two phases: the requests are written, then the answers are read. */
  phase?: BatchPhase;
  /** Which parts of the chunk are left; the whole chunk when absent. */
  progress?: ChunkProgress;
  /** Numbers of lines that a person leaves out of a direct invocation. */
  leaveOut?: number[];
}

/** How far a step has come with a chunk. What each invocation returns is what the next one gets. */
export interface ChunkProgress {
  /** Where the parts that are left begin, in non-blank lines of the chunk, and where the last one ends; empty: the whole chunk. */
  bounds: number[];
  /** How often in a row the function was killed on the first of them; counted by the state machine. */
  kills: number;
  /** Whether parts are left. */
  more?: boolean;
}

export type BatchPhase = 'prepare' | 'apply';

export const chunkRequestSchema: z.ZodType<ChunkRequest> = z.object({
  run: z.string().min(1),
  chunk: manifestLineSchema,
  attempt: z.number().int().min(0),
  phase: z.enum(['prepare', 'apply']).optional(),
  progress: z
    .object({ bounds: z.array(z.number().int().min(0)), kills: z.number().int().min(0), more: z.boolean().optional() })
    .optional(),
  options: z.object({
    evaluate: z.boolean(),
    reevaluate: z.boolean(),
    sampleRate: z.number().min(0).max(1),
    dryRun: z.boolean(),
    judge: z.enum(['converse', 'batch']),
    budgetUsd: z.number().positive().optional(),
    answersOf: z.string().min(1).optional(),
    window: z.object({ fromMs: z.number().optional(), toMs: z.number().optional() }).optional(),
    continues: z.array(z.string()).optional(),
  }),
});

/** What the state machine hands to JudgeBatch, once to start the jobs and then until they have ended. */
export interface JudgeBatchRequest {
  action: 'start' | 'check';
  run: { name: string; arn: string; startTime: string };
}

export interface JudgeBatchResult {
  /** `waiting`: ask again after `pollSeconds`; `ready`: apply the answers to the chunks of the manifest, `empty`: there are none. */
  outcome: 'waiting' | 'ready' | 'empty';
  pollSeconds: number;
  manifest: { bucket: string; key: string };
}

/** What became of a run's batch inference; part of the summary. */
export interface BatchReport {
  jobs: { arn: string; group: number; records: number; status: string; message?: string }[];
  /** Groups that were judged by Converse instead, and why. */
  converse: { group: number; records: number; reason: string }[];
}

/** What the state machine hands to SummarizeRun. `error` is there when planning or the Map itself failed. */
export interface SummarizeRequest {
  run: { name: string; arn: string; startTime: string };
  error?: { Error: string; Cause: string };
}

/** What SummarizeRun returns: the state machine fails with `error` and `cause` when `ok` is false. */
export interface SummarizeResult {
  ok: boolean;
  error: string;
  cause: string;
  summary: { bucket: string; key: string };
}

// ------------------------------------------------------------------------------------------------------- receipts

export interface NamedError {
  name: string;
  message: string;
}

/** The part of a chunk that an attempt was about. */
export interface PartFacts {
  /** Its first non-blank line, from 0, and the one after its last. */
  from: number;
  to: number;
  /** How often in a row the function had been killed on what begins there. */
  kills: number;
}

/** Counts of one LogTraces attempt over one chunk. */
export interface LogCounts {
  /** Non-blank lines read. Always `traced + quarantined + outsideWindow`. */
  lines: number;
  /** Lines whose trace is in MLflow: `written + alreadyThere + duplicateLine`. */
  traced: number;
  written: number;
  alreadyThere: number;
  /** Lines identical to an earlier line of the same chunk; they share its trace. */
  duplicateLine: number;
  quarantined: number;
  outsideWindow: number;
}

export interface LogReceipt {
  step: 'log';
  run: string;
  chunk: number;
  /** Absent: the whole chunk. */
  part?: PartFacts;
  attempt: number;
  requestId: string;
  startedAt: string;
  endedAt: string;
  ok: boolean;
  error?: NamedError;
  counts: LogCounts;
  /** Quarantined lines by the reason's name. */
  quarantineReasons: Record<string, number>;
}

/** Why a scorer gave no new verdict on a trace, and how often it did give one: the terms of the second equation. */
export interface VerdictCounts {
  newVerdicts: number;
  alreadyThere: number;
  duplicateLine: number;
  evaluationOff: number;
  notSampled: number;
  notJudgeable: number;
  heldByBudget: number;
  /** Verdicts that could not be had: `failedRecorded` are error assessments in MLflow, the rest is nowhere. */
  failed: number;
}

export const VERDICT_TERMS = [
  'newVerdicts',
  'alreadyThere',
  'duplicateLine',
  'evaluationOff',
  'notSampled',
  'notJudgeable',
  'heldByBudget',
  'failed',
] as const satisfies readonly (keyof VerdictCounts)[];

export interface JudgeSpend {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  /** US dollars; `null` when the judge's price is not known. */
  usd: number | null;
}

export interface TakenOver {
  /** Request ids: of the attempt that has paid, and of those that had taken it over before. */
  from: string[];
  spend: JudgeSpend;
}

export interface EvaluateReceipt {
  step: 'evaluate';
  run: string;
  chunk: number;
  /** Absent: the whole chunk. */
  part?: PartFacts;
  attempt: number;
  requestId: string;
  startedAt: string;
  endedAt: string;
  ok: boolean;
  error?: NamedError;
  /** Number of scorers in force; `traced × scorers` is the sum of `counts`. */
  scorers: number;
  /** Lines with a trace in the chunk, as this step read them. */
  traced: number;
  /** Distinct traces that carry a verdict after this attempt, a new one or one from before. */
  evaluatedTraces?: number;
  counts: VerdictCounts;
  /** Part of `counts.failed` that is recorded in MLflow as error assessments. */
  failedRecorded: number;
  /** `notJudgeable` and `notSampled` by reason, e.g. `errorReply`, `noResponse`, `traceMissing`. */
  reasons: Record<string, number>;
  /** New verdicts by scorer and value, for the summary: `{safety: {yes: 12, no: 1}}`. Numbers are summed up as `count`, `sum`. */
  verdicts: Record<string, Record<string, number>>;
  /** What was asked in this attempt, and what attempts before it had kept that were killed before their receipt. */
  spend: JudgeSpend;
  /** Of `spend` what it has taken over. An attempt among them that stood still and goes on tells it in its own receipt too. */
  takenOver?: TakenOver[];
  /** What the chunk's answers from a batch job cost. Every attempt that has read them says the same; it is paid once. */
  batchSpend?: JudgeSpend;
}

export type Receipt = LogReceipt | EvaluateReceipt;

/** A capture file that could not be planned, and why: it fails the run, and stops no other file. */
export interface FailedFile {
  bucket: string;
  key: string;
  versionId?: string;
  etag: string;
  error: NamedError;
}

/** What PlanCaptures leaves for SummarizeRun, one object per part. */
export interface PlanReceipt {
  part: number;
  outcome: PlanResult['outcome'];
  /** Execution this one duplicates, when `outcome` is `duplicate`. */
  duplicateOf?: string;
  /** Objects looked at in this part. */
  objects: number;
  chunks: number;
  /** Non-blank lines planned. */
  lines: number;
  bytes: number;
  scorers: number;
  more: boolean;
  options: RunOptions;
  input: unknown;
  estimate?: CostEstimate;
  /** What a person must know though the run goes on, e.g. that the judge's model ends soon. */
  warnings?: string[];
  /** One of the warnings is that of the judge's model. */
  judgeModelEnding?: true;
  failedFiles?: FailedFile[];
}

/** The forecast of the judge's bill: a dry run's by every capture, a run's own by the sizes of what it planned. */
export interface CostEstimate {
  captures: number;
  judgedCaptures: number;
  judgeCalls: number;
  inputTokens: number;
  outputTokens: number;
  /** `null` when the judge's price is not known. */
  usd: number | null;
  model: string;
  /** How the figures were come by, in a sentence. */
  basis: string;
}

// ---------------------------------------------------------------------------------------------------- work bucket

/** Chunk ordinals are padded so that listing a prefix gives them in order: room for 10^8 chunks. */
const CHUNK_DIGITS = 8;
const pad = (n: number): string => String(n).padStart(CHUNK_DIGITS, '0');

/** Keys in the work bucket. */
export const workKeys = {
  runPrefix: (run: string) => `runs/${run}/`,
  manifest: (run: string, part: number) => `runs/${run}/manifest/${pad(part)}.jsonl`,
  manifestPrefix: (run: string) => `runs/${run}/manifest/`,
  plan: (run: string, part: number) => `runs/${run}/plan/${pad(part)}.json`,
  planPrefix: (run: string) => `runs/${run}/plan/`,
  receiptPrefix: (run: string) => `runs/${run}/receipts/`,
  receipt: (run: string, chunk: number, step: Receipt['step'], attempt: number, requestId: string) =>
    `runs/${run}/receipts/${pad(chunk)}/${step}-${String(attempt).padStart(3, '0')}-${requestId}.json`,
  receiptsOfChunk: (run: string, chunk: number, step: Receipt['step']) => `runs/${run}/receipts/${pad(chunk)}/${step}-`,
  /** What the judge has answered about a trace. */
  answer: (run: string, traceId: string) => `answers/${run}/${traceId}.json`,
  mapResultPrefix: (run: string) => `runs/${run}/map`,
  batchMapResultPrefix: (run: string) => `runs/${run}/map-batch`,
  summary: (run: string) => `runs/${run}/summary.json`,
  quarantine: (run: string, chunk: number) => `quarantine/${run}/${pad(chunk)}.jsonl`,
  quarantinePrefix: (run: string) => `quarantine/${run}/`,
  /** Requests for Bedrock batch inference; the chunks of a group are the input of one job. */
  batchInput: (run: string, group: number, chunk: number) =>
    `${workKeys.batchInputPrefix(run, group)}${pad(chunk)}.jsonl`,
  batchInputsPrefix: (run: string) => `batch/${run}/input/`,
  batchInputPrefix: (run: string, group: number) => `${workKeys.batchInputsPrefix(run)}${pad(group)}/`,
  batchOutputPrefix: (run: string) => `batch/${run}/output/`,
  /** Where Bedrock puts the answers to `batchInput`. */
  batchOutput: (run: string, jobId: string, chunk: number) => `batch/${run}/output/${jobId}/${pad(chunk)}.jsonl.out`,
  batchStatePrefix: (run: string) => `batch/${run}/state/`,
  batchPrepared: (run: string, chunk: number) => `batch/${run}/state/prepared/${pad(chunk)}.json`,
  batchJobs: (run: string) => `batch/${run}/state/jobs.json`,
  batchManifest: (run: string) => `batch/${run}/state/manifest.jsonl`,
  claim: (digest: string) => `claims/${digest}.json`,
};

/** One line of a quarantine object: a line that is not a capture record, its place and why. */
export interface QuarantineEntry {
  bucket: string;
  key: string;
  versionId?: string;
  etag: string;
  line: number;
  start: number;
  end: number;
  reason: NamedError;
  /** The line's bytes, base64; absent when the line is over the size bound and kept by reference only. */
  base64?: string;
  quarantinedAt: string;
  /** What a retry of the line needs. */
  experimentId: string;
  objectTimeMs: number;
  options?: RunOptions;
}

// ----------------------------------------------------------------------------------------------------- AWS names

/** Names of the deployed resources, as people type them. */
export const resourceNames = (prefix: string) => ({
  stack: `SageMakerInferenceMonitoringStack-${prefix}`,
  processingRole: `sagemaker-data-capture-processing-${prefix}`,
  plannerRole: `sagemaker-data-capture-planning-${prefix}`,
  evaluatorRole: `sagemaker-data-capture-evaluation-${prefix}`,
  summarizerRole: `sagemaker-data-capture-summary-${prefix}`,
  planner: `sagemaker-data-capture-planner-${prefix}`,
  processor: `sagemaker-data-capture-processor-${prefix}`,
  evaluator: `sagemaker-data-capture-evaluator-${prefix}`,
  batcher: `sagemaker-data-capture-batcher-${prefix}`,
  batcherRole: `sagemaker-data-capture-batching-${prefix}`,
  /** The role that Bedrock takes on for a batch job. */
  batchServiceRole: `sagemaker-data-capture-batch-job-${prefix}`,
  summarizer: `sagemaker-data-capture-summarizer-${prefix}`,
  stateMachine: `sagemaker-data-capture-monitoring-${prefix}`,
  rule: `sagemaker-s3-event-rule-${prefix}`,
  stateMachineLogGroup: `/aws/vendedlogs/states/sagemaker-monitoring-${prefix}`,
  replayStateMachine: `sagemaker-data-capture-replay-${prefix}`,
  // Without `data-capture`, with which they would be longer than AWS takes where the prefix is long.
  replayPlanner: `sagemaker-replay-planner-${prefix}`,
  replayPlannerRole: `sagemaker-replay-planning-${prefix}`,
  replayer: `sagemaker-replay-sender-${prefix}`,
  replayerRole: `sagemaker-replay-sending-${prefix}`,
  replayEvaluator: `sagemaker-replay-evaluator-${prefix}`,
  replayEvaluatorRole: `sagemaker-replay-evaluation-${prefix}`,
  replayPublisher: `sagemaker-replay-publisher-${prefix}`,
  replayPublisherRole: `sagemaker-replay-publishing-${prefix}`,
  replaySummarizer: `sagemaker-replay-summarizer-${prefix}`,
  replaySummarizerRole: `sagemaker-replay-summary-${prefix}`,
  replayStopper: `sagemaker-replay-stopper-${prefix}`,
  replayStopperRole: `sagemaker-replay-stopping-${prefix}`,
  replayStopRule: `sagemaker-replay-stop-rule-${prefix}`,
  replayStateMachineLogGroup: `/aws/vendedlogs/states/sagemaker-replay-${prefix}`,
  dashboard: `SageMakerMonitoring-${prefix}`,
});

/** CloudWatch metrics that SummarizeRun publishes, with the dimension `StackPrefix`. */
export const RESOURCE_METRICS = {
  namespace: 'SageMakerInferenceMonitor',
  dimension: 'StackPrefix',
} as const;

/** Their names; a run publishes each of them once, at its end. `JudgeUsd` is missing where the judge's price is not known. */
export const RUN_METRICS = [
  'TracedLines',
  'QuarantinedLines',
  'LostLines',
  'NewVerdicts',
  'FailedVerdicts',
  'HeldVerdicts',
  'LostVerdicts',
  'RunsFailed',
  'JudgeModelEnding',
  'JudgeUsd',
] as const;
export type RunMetric = (typeof RUN_METRICS)[number];

/** Default judge model; the sample's Sonnet 4 has left Bedrock. */
export const DEFAULT_JUDGE_MODEL = 'global.anthropic.claude-sonnet-4-6';

/** Keys of the DynamoDB table that holds the judge's budget; both attributes are named in the table's definition. */
export const budgetTable = {
  /** String: `day#2026-11-20` or `run#<execution name>`. */
  partitionKey: 'scope',
  /** Time to live, epoch seconds. */
  ttlAttribute: 'ttl',
} as const;
