/** What PlanReplay decides, as it is kept in the work bucket: the functions after it read nothing else of it. */

import type { ReplayInput, ReplayPlanResult } from '../../contract/replay.ts';
import type { Experiment } from '../../mlflow/types.ts';
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

/** The judge that is asked about the replies once all are there. */
export interface PlannedJudge {
  model: string;
  /** Most that this replay may spend, US dollars; 0: no limit of its own. */
  budgetUsd: number;
  /** What a person must know of the model, e.g. that it ends soon. */
  warning?: string;
}

/** Where traces, figures and files go once all replies are there. */
export interface PlannedMlflow {
  /** Of the replays. */
  experiment: Experiment;
  runId: string;
  /** There when the captures have traces that those of the replay can name. */
  capturesExperimentId?: string;
}

export interface ReplayPlan {
  run: string;
  outcome: ReplayPlanResult['outcome'];
  target: ReplayInput['target'];
  options: ReplayOptions;
  compare: boolean;
  raw: boolean;
  judge: PlannedJudge | null;
  mlflow: PlannedMlflow | null;
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
