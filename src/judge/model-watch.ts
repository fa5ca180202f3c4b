/** The check of the judge's model at the start of runs, which logs its findings. */
import { logger } from '../core/process/logging.ts';
import { createModelWatch, type ModelCheck } from './model-check.ts';

/** Returns a function that checks the models, and returns and logs what a person must know first; `undefined`: nothing. */
export function watchJudgeModels(models: readonly string[]): () => Promise<ModelCheck | undefined> {
  const watches = models.map((model) =>
    createModelWatch(model, (error) => logger.warn('The judge’s model could not be checked', error as Error)),
  );
  return async () => {
    const checks = (await Promise.all(watches.map((watch) => watch()))).filter((check) => check !== undefined);
    for (const check of checks) logger.warn(check.message, { check } as never);
    return checks.find(({ level }) => level === 'error') ?? checks[0];
  };
}
