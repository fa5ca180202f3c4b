/** The check of the judge's model at the start of runs, which logs its findings. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { logger } from '../core/process/logging.ts';
import { checkJudgeModel, type ModelCheck } from './model-check.ts';

/** A run does not wait longer for the check, which it can do without. In a VPC without access to Bedrock it would never end. */
const LOOK_UP_TIMEOUT_MS = 3_000;

/**
 * Returns a function that checks the models, logs the result, and returns the most urgent finding, or `undefined`. Each
 * model is checked once per Lambda process, and again after an error, which may have been fixed in the meantime.
 */
export function watchJudgeModels(
  models: readonly string[],
  client: BedrockClient = new BedrockClient({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: LOOK_UP_TIMEOUT_MS, requestTimeout: LOOK_UP_TIMEOUT_MS },
  }),
): () => Promise<ModelCheck | undefined> {
  const known = new Map<string, Promise<ModelCheck | undefined>>();
  const toTell = async (model: string): Promise<ModelCheck[]> => {
    const check =
      known.get(model) ??
      checkJudgeModel(model, client).catch(
        // A run continues without the check.
        (error: Error) => void logger.warn('The judge’s model could not be checked', error),
      );
    known.set(model, check);
    const result = await check;
    if (result?.level === 'error') known.delete(model);
    // A custom model never has a life cycle.
    return result === undefined || result.level === 'ok' || result.state === 'unknown' ? [] : [result];
  };
  return async () => {
    const checks = (await Promise.all(models.map(toTell))).flat();
    for (const check of checks) logger.warn(check.message, { check } as never);
    // In a cascade, report the model that fails a run first.
    return (
      checks.find(({ level }) => level === 'error') ??
      checks.find(({ dearerFrom }) => dearerFrom !== undefined) ??
      checks[0]
    );
  };
}
