/** Connects replays and comparisons to the judge and to MLflow, with the same settings as the pipeline. */
import { traceIdOf } from '../../src/captures/trace/ids.ts';
import { judgeOf } from '../../src/judge/connect.ts';
import { OwnLimit } from '../../src/limits/spending-limit.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import type { JudgeSettings } from '../../src/replay/compare/judge-replies.ts';
import { DEFAULT_JUDGE_BUDGET_USD } from '../../src/replay/derived-options.ts';
import { requireJudge } from '../cli/judge-access.ts';
import { notice } from '../cli/output.ts';
import { type CommandSettings, commandSettings } from '../cli/settings.ts';
import type { ReplayFlags } from './replay-options.ts';

/**
 * Connects to the judge that compares replies. `--judge-model` overrides BEDROCK_MODEL_ID.
 *
 * @throws PermanentError `InvalidSettings`, and the errors of `requireJudge`
 */
export async function connectPairwiseJudge(
  { judgeModel, budget = DEFAULT_JUDGE_BUDGET_USD }: Partial<Pick<ReplayFlags, 'judgeModel' | 'budget'>>,
  settings = commandSettings({ BEDROCK_MODEL_ID: judgeModel }),
): Promise<JudgeSettings> {
  await requireJudge(settings, budget, [settings.BEDROCK_MODEL_ID]);
  return { judge: judgeOf(settings), ...(budget > 0 && { limit: new OwnLimit(budget) }) };
}

/**
 * Connects to MLflow. The default experiment is that of the captures, with the suffix `-replays`. @throws errors of the
 * server
 */
export async function connectReplayMlflow(settings: CommandSettings, experimentName?: string) {
  const s3 = async () => (await import('../../src/core/aws/storage.ts')).createS3Client();
  const client = mlflowOf(settings, await s3());
  notice(`writes to: MLflow, ${client.target.baseUrl.origin}`);
  const captures = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
  const name = experimentName ?? (captures === undefined ? 'replays' : `${captures}-replays`);
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
