/** The requests and results that travel between the monitoring state machine and its functions. */
import * as z from 'zod';
import type { Execution, ObjectPlace, Raised } from './execution.ts';
import { type RunOptions, runOptionsSchema } from './input.ts';

const captureRangeSchema = z.object({
  bucket: z.string().min(1),
  key: z.string().min(1),
  versionId: z.string().optional(),
  /** Without the quotes that S3 puts around it. Every read passes it as `If-Match`. */
  etag: z.string().min(1),
  /** First byte, inclusive. */
  start: z.number().int().min(0),
  /** Last byte, inclusive. */
  end: z.number().int().min(0),
  /** Physical number of the first line in the file, from 1; blank lines count. */
  firstLine: z.number().int().min(1),
  /** Non-blank lines in the range. */
  lines: z.number().int().min(0),
  /** S3's LastModified of the object, epoch milliseconds: the fallback for a record without a time. */
  objectTimeMs: z.number(),
  /** The chance of each capture to be judged, decided once for the file. Absent if the run has another one. */
  chance: z.number().min(0).max(1).optional(),
  /** The chance of those that a rule of `EVALUATION_ALWAYS` chooses. Absent: 1. */
  ruleChance: z.number().min(0).max(1).optional(),
  /** Quarantine object with the lines' bytes. It is read if the capture file no longer exists. */
  keptIn: z.string().optional(),
});

/** Whole lines of one capture file. */
export type CaptureRange = z.infer<typeof captureRangeSchema>;

const manifestLineSchema = z.object({
  /** The contract that it was planned under; see contract.ts. */
  contract: z.number().optional(),
  /** Ordinal of the chunk within the run, from 0. */
  chunk: z.number().int().min(0),
  experimentId: z.string().min(1),
  /** Non-blank lines in all ranges. */
  lines: z.number().int().min(0),
  /**
   * Set in a retry if an earlier run wrote every trace of the chunk. A person has deleted those that are missing now.
   */
  traced: z.literal(true).optional(),
  /** Ranges of one or more files, in this order. */
  ranges: z.array(captureRangeSchema),
  /** Key in the work bucket of the ranges, if they are too long for a line; `ranges` is empty then. */
  rangesIn: z.string().optional(),
});

/** One line of the manifest: a chunk, which one child of the Map processes. It may span several files. */
export type ManifestLine = z.infer<typeof manifestLineSchema>;

/** The request to PlanCaptures, for the first part of the planning and for each further part. */
export interface PlanRequest {
  input: unknown;
  run: Execution;
  /** Number of this part, from 0. */
  part: number;
  /** Number of retries of planning the part. */
  attempt?: number;
  /** First chunk ordinal of this part. */
  nextChunk: number;
  /** Position at which the previous part stopped; `null` or empty for the first part. Opaque to the state machine. */
  cursor: string | null;
}

/** The result of PlanCaptures. `outcome` decides the next state. */
export interface PlanResult {
  /** `planned`: run the Map over the manifest; `empty`: this part has no work; `duplicate`, `dryRun`: summarize. */
  outcome: 'planned' | 'empty' | 'duplicate' | 'dryRun';
  part: number;
  nextPart: number;
  nextChunk: number;
  /** Absent if there are no chunks, or one in all. */
  manifest?: ObjectPlace;
  /** The only chunk of the run, which then needs no Map. */
  chunk?: ManifestLine | undefined;
  options: RunOptions;
  /** Whether more parts follow. */
  more: boolean;
  cursor: string | null;
}

/** The request of the Map to LogTraces and EvaluateTraces for one chunk. */
export const chunkRequestSchema = z.object({
  run: z.string().min(1),
  chunk: manifestLineSchema,
  options: runOptionsSchema,
  /**
   * Step Functions' retry count of this state, from 0. After the request is read, it includes the earlier attempts in
   * `progress`.
   */
  attempt: z.number().int().min(0),
  /** With batch inference, evaluation has two phases: the first writes the requests, the second reads the answers. */
  phase: z.enum(['prepare', 'apply']).optional(),
  /** The state machine's knowledge of earlier attempts. Each invocation returns it for the next invocation. */
  progress: z
    .object({
      /** How often the function was killed while it processed the chunk. The state machine counts. */
      kills: z.number().int().min(0),
      /** Attempts before the last wait, after which Step Functions restarts its count of retries. */
      attempts: z.number().int().min(0).optional(),
      /** Seconds that the state machine waits before the next invocation. */
      waitSeconds: z.number().min(0).optional(),
    })
    .optional(),
});

export type ChunkRequest = z.infer<typeof chunkRequestSchema>;
export type ChunkProgress = NonNullable<ChunkRequest['progress']>;
export type BatchPhase = NonNullable<ChunkRequest['phase']>;

/** The request to JudgeBatch, repeated until all jobs have ended. */
export type JudgeBatchRequest = Pick<PlanRequest, 'run'>;

/** The result of JudgeBatch. */
export interface JudgeBatchResult {
  /**
   * `waiting`: check again after `pollSeconds`; `ready`: apply the answers to the manifest's chunks; `empty`: there are no chunks.
   */
  outcome: 'waiting' | 'ready' | 'empty';
  pollSeconds: number;
  manifest: ObjectPlace;
}

/** The request to SummarizeRun. `error` is present if planning or the Map itself failed. */
export interface SummarizeRequest {
  run: Execution;
  error?: Raised;
  /** Number of this part of the work, from 0, which is the default. */
  part?: number;
}

/** The result of SummarizeRun. The state machine fails with `error` and `cause` if `ok` is false. */
export interface SummarizeResult {
  /** Set if one invocation did not have the time for all chunks. Call it again with `part`. */
  more: boolean;
  part: number;
  ok: boolean;
  error: string;
  cause: string;
  summary: ObjectPlace;
}
