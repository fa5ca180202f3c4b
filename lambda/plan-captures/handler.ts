/** PlanCaptures: the execution's input → a manifest of chunks in the work bucket. */
// The first to be loaded, and in a trial's process the only one.
import '../run/evaluate-trial.ts';
import type { Context } from 'aws-lambda';
import { readEnvironment } from '../common/environment.ts';
import { logged } from '../common/telemetry.ts';
import type { PlanRequest, PlanResult } from '../contract.ts';
import { planCaptures } from '../run/planner.ts';
import { plannerDependencies } from './dependencies.ts';

const dependencies = plannerDependencies(readEnvironment());

export const handler = logged<PlanRequest, PlanResult>((request, context: Context) =>
  planCaptures(request, { ...dependencies, remainingMs: () => context.getRemainingTimeInMillis() }),
);
