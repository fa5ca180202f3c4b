/** The check of the judge's model at the start of runs, which logs its findings. */
import { logger } from '../shared/logging.ts';
import { createModelWatch, type ModelCheck } from './model-check.ts';

/** Returns a function that checks the model, and returns and logs what a person must know; `undefined`: nothing. */
export function watchJudgeModel(model: string): () => Promise<ModelCheck | undefined> {
  const watch = createModelWatch(model, (error) =>
    logger.warn('The judge’s model could not be checked', error as Error),
  );
  return async () => {
    const check = await watch();
    if (check !== undefined) logger.warn(check.message, { check } as never);
    return check;
  };
}
