/** The judge that compares replies, from the same settings as the pipeline's. */
import { connectCalibrationJudge, readCalibrationSettings } from '../../lambda/judge/calibration/connect.ts';
import { priceOptions } from '../../lambda/judge/estimate.ts';
import { requireKnownPrice } from '../../lambda/judge/prices.ts';
import { OwnLimit } from '../../lambda/judge/spending-limit.ts';
import type { JudgeSettings } from '../../lambda/replay/compare/judge-replies.ts';
import { dotenvOfCommand } from '../../local/dotenv-file.ts';

/**
 * @param model in place of BEDROCK_MODEL_ID
 * @param budgetUsd 0: no limit
 * @throws PermanentError `InvalidSettings`, `InvalidJudge`, `JudgePriceUnknown`
 */
export async function connectPairwiseJudge(model: string | undefined, budgetUsd: number): Promise<JudgeSettings> {
  const settings = readCalibrationSettings({
    ...dotenvOfCommand(),
    ...process.env,
    ...(model === undefined ? {} : { BEDROCK_MODEL_ID: model }),
  });
  const budget = budgetUsd === 0 ? undefined : budgetUsd;
  requireKnownPrice(settings.BEDROCK_MODEL_ID, budget, priceOptions(settings));
  const limit = budget === undefined ? {} : { limit: new OwnLimit(budget) };
  return { judge: await connectCalibrationJudge(settings), ...limit };
}
