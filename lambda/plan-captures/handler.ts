/** PlanCaptures: the execution's input → a manifest of chunks in the work bucket. */
import type { Context } from 'aws-lambda';
import type { PlanRequest, PlanResult } from '../../src/core/contract/payloads.ts';
import { logged } from '../../src/core/process/logging.ts';
import { readEnvironment } from '../../src/core/settings/environment.ts';
import { judgeModels } from '../../src/judge/judge-id.ts';
import { connectLearned } from '../../src/judge/models/learned.ts';
import { planCaptures } from '../../src/monitoring/plan/planner.ts';
import { plannerDependencies } from './dependencies.ts';

const environment = readEnvironment();
const dependencies = plannerDependencies(environment);

const handle = async (request: PlanRequest, context: Context): Promise<PlanResult> => {
  // Findings about the judge from earlier runs.
  const learned = connectLearned(environment);
  await Promise.all(judgeModels(environment).map((model) => learned.of(model).ready()));
  const taught = { ...environment, shared: { learned: learned.of } };
  const remainingMs = () => context.getRemainingTimeInMillis();
  return planCaptures(request, { ...dependencies, environment: taught, remainingMs });
};

export const handler = logged(environment.STACK_PREFIX, handle);
