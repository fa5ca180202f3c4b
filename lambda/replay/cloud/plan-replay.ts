/** PlanReplay: what is to be sent when, by whom. */
import type { Storage } from '../../common/storage.ts';
import { type ReplayPlanRequest, type ReplayPlanResult, replayKeys } from '../../replay-contract.ts';
import type { ReplayEnvironment } from './environment.ts';
import { parseReplayInput } from './input.ts';

export interface PlanDependencies {
  storage: Storage;
  environment: ReplayEnvironment;
  remainingMs(): number;
}

export async function planReplay(
  { input, run }: ReplayPlanRequest,
  { environment }: PlanDependencies,
): Promise<ReplayPlanResult> {
  parseReplayInput(input, environment);
  const manifest = { bucket: environment.WORK_BUCKET, key: replayKeys.manifest(run.name) };
  return { outcome: 'empty', manifest, shards: 0 };
}
