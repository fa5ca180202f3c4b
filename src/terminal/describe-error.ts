/** Error messages for a person at a terminal. */

/** Requirements of the SDK whose absence it reports in its own words. */
const REQUIREMENTS: [test: RegExp, what: string, expected: string][] = [
  [/^Region is missing/, 'The AWS region is missing', 'AWS_REGION, or a profile with a region'],
  [
    /^CredentialsProviderError|^Could not load credentials/,
    'AWS credentials are missing',
    'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or aws sso login',
  ],
];

/** Describes a missing AWS region or missing credentials; `undefined` for any other error. */
export function missingAwsSetup(error: unknown): string | undefined {
  const { name = '', message = '' } = error instanceof Error ? error : {};
  const [, what, expected] = REQUIREMENTS.find(([test]) => test.test(name) || test.test(message)) ?? [];
  return (
    what && `${what}; got: ${message}; expected: ${expected}. While npm start runs, use the variables that it prints`
  );
}

/**
 * Formats an error: got and expected on a line each. An unexpected error keeps its stack, which is needed to fix it.
 */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const missing = missingAwsSetup(error);
  if (missing) return missing.replaceAll('; ', '\n  ');
  const isExpected = /; expected: /.test(error.message) || 'code' in error;
  if (!isExpected) return error.stack ?? error.message;
  const [facts = '', ...output] = error.message.split(/(?<=:)\n/);
  return [facts.replaceAll('; ', '\n  '), ...output].join('\n');
}
