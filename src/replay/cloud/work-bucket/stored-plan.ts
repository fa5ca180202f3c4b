/** `plan.json`: everything that PlanReplay passes to the later functions. */

import type { ObjectFacts, Storage } from '../../../core/aws/storage.ts';
import { assertContract } from '../../../core/contract/contract.ts';
import type { ReplayInput, ReplayPlanResult, ReplayShardRequest } from '../../../core/contract/replay.ts';
import { areaOf, replayKeys } from '../../../core/contract/work-keys.ts';
import { PermanentError } from '../../../core/errors/errors.ts';
import type { Experiment } from '../../../mlflow/types.ts';
import type { FinishedReplay } from '../../finished.ts';
import type { Registration } from '../../marks/believe.ts';

/** Content type of the files with a line per request. */
export const LINES = 'application/jsonlines';

export interface ShardPlan {
  shard: number;
  /** Number of the time window. Several shards send the requests of one window. */
  window: number;
  /** Requests of the schedule. */
  requests: number;
  /** Time of the first request, ms after the clock's start; `null` without a schedule. */
  firstDueMs: number | null;
  /** Most requests in flight: its share of `concurrency` or `maxConcurrency`. `null`: as many as a Lambda can hold. */
  maxConcurrency: number | null;
}

/** The judge that compares the replies after sending. */
export interface PlannedJudge {
  /** Model name for display. */
  model: string;
  /** Limit of this replay in US dollars; 0: only the daily budget applies. */
  budgetUsd: number;
  /** A warning about the model, e.g. that it reaches its end of life soon. */
  warning?: string;
}

/** Where traces, figures and files are logged after sending. */
export interface PlannedMlflow {
  /** The experiment of the replays. */
  experiment: Experiment;
  runId: string;
  /** Address of the server's web page, if it has one. */
  url?: string;
  /** Set if the captures have traces that the replay's traces can refer to. */
  capturesExperimentId?: string;
  /** The run of the monitoring that traces and judges the exchanges. */
  monitoringRun: string;
}

export interface StoredPlan extends Pick<FinishedReplay, 'run' | 'options' | 'captures'> {
  /** The contract that it was planned under; see src/core/contract/contract.ts. */
  contract: number;
  outcome: ReplayPlanResult['outcome'];
  target: ReplayInput['target'];
  compare: boolean;
  judge: PlannedJudge | null;
  mlflow: PlannedMlflow | null;
  source: { bucket: string; prefix: string; fromMs: number | null; toMs: number | null };
  /** Number of skipped lines by reason. */
  skipped: Record<string, number>;
  /** When the clock that all shards share starts, epoch ms. */
  startAtEpochMs: number;
  /** Requests of all shards. */
  requests: number;
  shards: ShardPlan[];
  /**
   * The replay's registrations, in order: a long replay has several. Empty for a URL, whose requests have no inference
   * ids.
   */
  marks?: Registration[];
  /** Version of the key of the pseudonyms, for all shards. Absent if nothing is masked. */
  redactKey?: string | undefined;
}

/**
 * Reads the plan of a run. It is missing if planning failed.
 *
 * @throws PermanentError `ContractChanged`
 */
export async function readPlan(storage: Storage, bucket: string, run: string): Promise<StoredPlan | undefined> {
  const plan = await storage.getJson<StoredPlan>(bucket, replayKeys.plan(run));
  if (plan !== undefined) assertContract(plan, `s3://${bucket}/${replayKeys.plan(run)}`);
  return plan;
}

/**
 * Reads the plan of a run, and the part for one shard.
 *
 * @throws PermanentError `ReplayNotPlanned`, `ContractChanged`
 */
export async function readShardPlan(storage: Storage, bucket: string, { run, shard }: ReplayShardRequest) {
  const plan = await readPlan(storage, bucket, run);
  const own = plan?.shards[shard];
  if (plan && own) return { plan, own };
  throw new PermanentError('ReplayNotPlanned', 'The replay has no plan for this shard', {
    got: `shard ${shard} of ${run}`,
    where: `s3://${bucket}/${replayKeys.plan(run)}`,
  });
}

/** Lines that planning skipped, with their places. */
export const plannedSkippedKey = (run: string): string => `${areaOf('replaySchedule', run)}skipped.jsonl`;

/** Files of a shard other than the files of its requests. */
export const SHARD_FILES = {
  /** Written once, before the first request. */
  claim: 'claim.json',
  /** Written last. A shard without it is lost. */
  result: 'result.json',
  /** The error of a shard that ended without a result. */
  failure: 'failure.json',
} as const;

/** Lists the objects that the shards have written, by shard and by name. */
export async function listShardFiles(storage: Storage, bucket: string, run: string) {
  const prefix = areaOf('replayShards', run);
  const shards = new Map<number, Map<string, ObjectFacts>>();
  for await (const object of storage.list(bucket, prefix)) {
    const [shard = '', name = ''] = object.key.slice(prefix.length).split('/');
    const files = shards.get(Number(shard)) ?? new Map<string, ObjectFacts>();
    shards.set(Number(shard), files.set(name, object));
  }
  return shards;
}
