/** PlanCaptures: the execution's input → a manifest of chunks in the work bucket. */
// Must be the first import: in the process of a trial it is the only one that runs.
import '../../src/monitoring/evaluate/evaluate-trial.ts';
import type { Context } from 'aws-lambda';
import type { PlanRequest, PlanResult } from '../../src/contract/payloads.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { readEnvironment } from '../../src/settings/environment.ts';
import { logged } from '../../src/shared/logging.ts';
import { plannerDependencies } from './dependencies.ts';

const dependencies = plannerDependencies(readEnvironment());

export const handler = logged<PlanRequest, PlanResult>((request, context: Context) =>
  planCaptures(request, { ...dependencies, remainingMs: () => context.getRemainingTimeInMillis() }),
);
