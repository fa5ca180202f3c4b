/** What the SDK cannot do without, and says in words of its own. */
const LACKS: [test: RegExp, what: string, expected: string][] = [
  [/^Region is missing/, 'The AWS region is missing', 'AWS_REGION, or a profile with a region'],
  [
    /^CredentialsProviderError|^Could not load credentials/,
    'AWS credentials are missing',
    'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or aws sso login',
  ],
];

/** Where an AWS call lacks its region or its credentials: what was got and what is expected; else `undefined`. */
export function awsLack(error: unknown): string | undefined {
  const { name = '', message = '' } = error instanceof Error ? error : {};
  const [, what, expected] = LACKS.find(([test]) => test.test(name) || test.test(message)) ?? [];
  return (
    what && `${what}; got: ${message}; expected: ${expected}. With a running npm start: the variables that it prints`
  );
}

/**
 * An error for a person at a terminal: what was got and what was expected, a line each. One that was not foreseen keeps
 * its stack, which whoever mends it will want.
 */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const lack = awsLack(error);
  if (lack) return lack.replaceAll('; ', '\n  ');
  const isForeseen = /; expected: /.test(error.message) || 'code' in error;
  if (!isForeseen) return error.stack ?? error.message;
  const [facts = '', ...output] = error.message.split(/(?<=:)\n/);
  return [facts.replaceAll('; ', '\n  '), ...output].join('\n');
}
