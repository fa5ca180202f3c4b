/**
 * Decides which chunks share a batch job: consecutive chunks, by their ordinals alone. So each chunk can write its
 * requests directly to its job’s input.
 */
import type { JudgeSpend } from '../../core/contract/receipts.ts';
import type { Deposit } from '../../limits/budget.ts';
import { CHUNK_BOUNDS } from '../chunk/chunk-bounds.ts';

/** The record that `prepareChunk` writes for the start of the jobs and for the second phase. */
export interface PreparedChunk {
  /** The number of requests; absent if they could not be written. */
  records?: number;
  /** Maximum cost of the answers for the chunk. Absent if no budget is set. */
  deposit?: Deposit | undefined;
  /** The cost of harmless questions that were asked before. */
  canary?: JudgeSpend | undefined;
  /** Questions that the budget had no room for. */
  held: string[];
}

/** Bedrock’s quota "Minimum number of records per batch inference job": 100 for every model with such a quota. */
export const MIN_BATCH_RECORDS = 100;

/** Bedrock’s quota "Records per batch inference job": 50,000, for some models 100,000. A chunk has a request for each line at most. */
const CHUNKS_OF_JOB = Math.floor(50_000 / CHUNK_BOUNDS.maxLines);

/**
 * Maximum size of a chunk's requests in bytes. Further requests are asked on demand. Bedrock’s quota "Batch inference
 * job size" is 5 GB, and only chunks with compressed content come near their part of it.
 */
export const MAX_INPUT_BYTES = Math.floor(4.9e9 / CHUNKS_OF_JOB);

/** Returns the number of the job that a chunk belongs to, from 0. */
export const groupOf = (chunk: number): number => Math.floor(chunk / CHUNKS_OF_JOB);
