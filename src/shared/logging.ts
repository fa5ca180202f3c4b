/** Structured logs of the functions, by AWS Lambda Powertools. */
import { Logger } from '@aws-lambda-powertools/logger';
import type { Context } from 'aws-lambda';
import { bareError } from './errors.ts';

/** Of an error it logs no field but those that hold nothing captured. */
export const logger = new Logger({
  jsonReplacerFn: (_, value) => (value instanceof Error ? bareError(value) : value),
});

/**
 * A handler that logs what it was asked, what came of it, and every failure with its name, message and causes before it
 * is thrown on to Step Functions: bare, since Lambda's runtime logs every field of an error, and its stack goes into the
 * execution's history. Captured payloads are never part of a request: pointers only.
 */
export function logged<Request, Result>(
  handle: (request: Request, context: Context) => Promise<Result>,
): (request: Request, context: Context) => Promise<Result> {
  return async (request, context) => {
    logger.addContext(context);
    const startedAt = Date.now();
    try {
      const result = await handle(request, context);
      logger.info('done', { request, result, milliseconds: Date.now() - startedAt } as never);
      return result;
    } catch (error) {
      logger.error('failed', { request, milliseconds: Date.now() - startedAt, error: error as Error } as never);
      throw bareError(error);
    }
  };
}
