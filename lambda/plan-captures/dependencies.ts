/** The dependencies of planning, created once per cold start. */
import { DescribeExecutionCommand, ExecutionDoesNotExist, SFNClient } from '@aws-sdk/client-sfn';
import { connectRedaction } from '../../src/captures/redact/redaction.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { RetryableError, saidBy } from '../../src/core/errors/errors.ts';
import type { LambdaEnvironment } from '../../src/core/settings/environment.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { functionVersions } from '../../src/judge/functions/lambda-invoke.ts';
import { judgeModels } from '../../src/judge/judge-id.ts';
import { watchJudgeModels } from '../../src/judge/model-watch.ts';
import { askedOf, isFunctionScorer } from '../../src/judge/scorers/scorer-set.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectMlflow } from '../../src/mlflow/connect.ts';
import { DrawChances } from '../../src/monitoring/plan/draw-chances.ts';
import type { PlannerDependencies } from '../../src/monitoring/plan/types.ts';

export function plannerDependencies(environment: LambdaEnvironment): Omit<PlannerDependencies, 'remainingMs'> {
  const storage = new Storage(createS3Client());
  const stepFunctions = new SFNClient({});
  const mlflow = connectMlflow(environment, storage.s3);
  const redacted = connectRedaction(environment);
  const scorers = activeScorers(environment);
  const functions = scorers.filter(isFunctionScorer);
  return {
    storage,
    environment,
    scorers: askedOf(scorers).length,
    functionVersions: async () => (functions.length === 0 ? undefined : functionVersions(functions)),
    store: { resolveExperiment: async (...given) => (await mlflow()).resolveExperiment(...given) },
    checkJudgeModel: watchJudgeModels(judgeModels(environment)),
    pseudonymKey: async () => (await redacted()).redaction?.keyVersion,
    chances: new DrawChances(environment, limitsTable(environment)),
    isRunning: (executionArn, claimedMs) => isRunning(stepFunctions, executionArn, claimedMs),
  };
}

/** Step Functions answers with delay. For this long, an execution that it does not know may be a new one. */
const NEW_CLAIM_MS = 300_000;

async function isRunning(client: SFNClient, executionArn: string, claimedMs: number): Promise<boolean> {
  try {
    const { status } = await client.send(new DescribeExecutionCommand({ executionArn }));
    return status === 'RUNNING' || status === 'PENDING_REDRIVE';
  } catch (error) {
    // Step Functions deletes executions after 90 days. A deleted execution is not running.
    if (error instanceof ExecutionDoesNotExist) return Date.now() - claimedMs < NEW_CLAIM_MS;
    const facts = { got: saidBy(error), where: executionArn };
    const message = 'Step Functions did not report the state of an execution';
    throw new RetryableError('StepFunctionsUnavailable', message, facts, error);
  }
}
