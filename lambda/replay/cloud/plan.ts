/** What PlanReplay decides, as it is kept in the work bucket: ReplayShard and SummarizeReplay read nothing else of it. */
import type { ReplayInput, ReplayPlanResult } from '../../replay-contract.ts';
import type { DryRun } from '../dry-run.ts';
import type { ReplayOptions } from '../options.ts';

export interface ShardPlan {
  shard: number;
  /** Which stretch of time, and which of the stripes that share it. */
  window: number;
  stripe: number;
  /** Requests of the schedule. */
  requests: number;
  /** When they are due, ms after the clock's start; `null` without a schedule. */
  firstDueMs: number | null;
  lastDueMs: number | null;
  /** Requests under way at most: its share of `concurrency` or `maxConcurrency`. `null`: what a Lambda can hold. */
  maxConcurrency: number | null;
}

export interface ReplayPlan {
  run: string;
  outcome: ReplayPlanResult['outcome'];
  target: ReplayInput['target'];
  options: ReplayOptions;
  compare: boolean;
  raw: boolean;
  source: { bucket: string; prefix: string; fromMs: number | null; toMs: number | null };
  captures: { files: number; records: number; firstMs: number | null; lastMs: number | null };
  /** Lines that the plan leaves out, by reason. */
  skipped: Record<string, number>;
  plannedAtMs: number;
  /** The clock that all shards share starts then, epoch ms. */
  startAtEpochMs: number;
  sliceMs: number;
  /** Requests in all. */
  requests: number;
  shards: ShardPlan[];
  dryRun?: DryRun;
}
