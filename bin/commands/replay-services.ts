/** Connects replays and comparisons to the judge and to MLflow, with the same settings as the pipeline. */
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import { PermanentError, toNamedError } from '../../src/core/errors/errors.ts';
import { judgeOf } from '../../src/judge/connect.ts';
import { parseJudgeId } from '../../src/judge/judge-id.ts';
import { priceOptions, requireKnownPrice } from '../../src/judge/pricing/prices.ts';
import { OwnLimit } from '../../src/limits/spending-limit.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import type { JudgeSettings } from '../../src/replay/compare/judge-replies.ts';
import { DEFAULT_JUDGE_BUDGET_USD } from '../../src/replay/options.ts';
import type { ReplayFlags } from './replay.ts';
import { commandSettings } from './settings.ts';

/**
 * Connects to the judge that compares replies. `--judge-model` overrules BEDROCK_MODEL_ID.
 *
 * @throws PermanentError `InvalidSettings`, `InvalidJudge`, `JudgePriceUnknown`, `JudgeCredentialsMissing`
 */
export async function connectPairwiseJudge({
  judgeModel,
  budget: most = DEFAULT_JUDGE_BUDGET_USD,
}: Partial<Pick<ReplayFlags, 'judgeModel' | 'budget'>>): Promise<JudgeSettings> {
  const settings = commandSettings({ BEDROCK_MODEL_ID: judgeModel });
  const budget = most === 0 ? undefined : most;
  requireKnownPrice(settings.BEDROCK_MODEL_ID, budget, priceOptions(settings));
  await requireCredentials(settings.BEDROCK_MODEL_ID);
  return { judge: judgeOf(settings), ...(budget !== undefined && { limit: new OwnLimit(budget) }) };
}

/** Fails before anything is sent, rather than when the first pair is judged. */
async function requireCredentials(model: string): Promise<void> {
  if (parseJudgeId(model).scheme === 'openai' || process.env.AWS_BEARER_TOKEN_BEDROCK) return;
  try {
    await defaultProvider()();
  } catch (error) {
    const facts = { got: toNamedError(error).name, expected: 'AWS credentials, or another judge (--judge-model)' };
    throw new PermanentError('JudgeCredentialsMissing', 'There are no AWS credentials for the judge', facts, error);
  }
}

/** Connects to MLflow. Default of the experiment: that of the captures, with the suffix `-replays`. @throws errors of the server */
export async function connectReplayMlflow(flags: Pick<ReplayFlags, 'trackingUri' | 'experiment'>) {
  const settings = commandSettings({ MLFLOW_TRACKING_URI: flags.trackingUri });
  const s3 = async () => (await import('../../src/core/aws/storage.ts')).createS3Client();
  const client = mlflowOf(settings, await s3());
  const captures = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
  const name = flags.experiment ?? (captures === undefined ? 'replays' : `${captures}-replays`);
  const experiment = await client.resolveExperiment(name);
  // Captures without traces have no experiment: their replays are not linked.
  const capturesId = captures === undefined ? undefined : (await findExperiment(client.rest, captures))?.id;
  return {
    client,
    experiment,
    s3,
    /** Address of the server's web page, if it has one. */
    url: webPageOf(client.target),
    /** Returns the trace id of a captured line. Absent if the experiment of the captures is unknown. */
    ...(capturesId === undefined ? {} : { traceIdOf: (line: Buffer) => traceIdOf(capturesId, line) }),
    close: () => client.close(),
  };
}
