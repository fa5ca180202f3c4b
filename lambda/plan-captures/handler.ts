/** PlanCaptures: the execution's input → a manifest of chunks in the work bucket. */
import type { Context } from 'aws-lambda';
import type { PlanRequest, PlanResult } from '../../src/core/contract/payloads.ts';
import { countingThrottles, logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { plannerDependencies } from './dependencies.ts';

const environment = readEnvironment();
const dependencies = plannerDependencies(environment);

const handle = (request: PlanRequest, context: Context): Promise<PlanResult> =>
  planCaptures(request, { ...dependencies, remainingMs: () => context.getRemainingTimeInMillis() });

export const handler = logged(countingThrottles(environment.STACK_PREFIX, handle));
