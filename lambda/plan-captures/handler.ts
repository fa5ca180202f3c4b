/** PlanCaptures: the execution's input → a manifest of chunks in the work bucket; or the manifests of all parts → one. */
import type { Context } from 'aws-lambda';
import type { GatherRequest, JudgeBatchResult, PlanRequest, PlanResult } from '../../src/core/contract/payloads.ts';
import { logged } from '../../src/core/process/logging.ts';
import { countingThrottles } from '../../src/core/process/metrics.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { gatherChunks } from '../../src/monitoring/batch/all-chunks.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { plannerDependencies } from './dependencies.ts';

const environment = readEnvironment();
const dependencies = plannerDependencies(environment);

const handle = async (
  request: PlanRequest | GatherRequest,
  context: Context,
): Promise<PlanResult | JudgeBatchResult> => {
  const { storage } = dependencies;
  if ('gather' in request) return gatherChunks(request, { storage, workBucket: environment.WORK_BUCKET });
  return planCaptures(request, { ...dependencies, remainingMs: () => context.getRemainingTimeInMillis() });
};

export const handler = logged(countingThrottles(environment.STACK_PREFIX, handle));
