/** Error messages for a person at a terminal. */
import { awsFailure } from '../../src/core/errors/aws-failures.ts';

/**
 * Formats an error: got and expected on a line each. An unexpected error keeps its stack, which is needed to fix it.
 */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message } = awsFailure(error) ?? error;
  const isExpected = /; expected: /.test(message) || 'code' in error;
  if (!isExpected) return error.stack ?? message;
  const [facts = '', ...output] = message.split(/(?<=:)\n/);
  return [facts.replaceAll('; ', '\n  '), ...output].join('\n');
}
