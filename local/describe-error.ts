/**
 * An error for a person at a terminal: what was got and what was expected, a line each. One that was not foreseen keeps
 * its stack, which whoever mends it will want.
 */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isForeseen = /; expected: /.test(error.message) || 'code' in error;
  if (!isForeseen) return error.stack ?? error.message;
  const [facts = '', ...output] = error.message.split(/(?<=:)\n/);
  return [facts.replaceAll('; ', '\n  '), ...output].join('\n');
}
