/** Structured logs of the functions, by AWS Lambda Powertools. */
import { Logger } from '@aws-lambda-powertools/logger';
import type { Context } from 'aws-lambda';
import { bareError } from './errors.ts';

/** Logs of an error only the fields that cannot contain captured content. */
export const logger = new Logger({
  jsonReplacerFn: (_, value) => (value instanceof Error ? bareError(value) : value),
});

/**
 * Wraps a handler so that it logs its request, its result, and every failure with name, message and causes. It throws a
 * bare error, because Lambda's runtime logs every field of an error and Step Functions stores its stack in the history of
 * the execution. A request contains pointers to captures, never their payloads.
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
