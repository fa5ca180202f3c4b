/** Checks the caller: credentials, and whether the settings' ARNs are of the same account. */

import { LambdaClient } from '@aws-sdk/client-lambda';
import { queryAws } from '../../src/core/aws/aws-query.ts';
import { awsFailure } from '../../src/core/errors/aws-failures.ts';
import type { CheckedSettings } from '../../src/core/settings/schema.ts';
import { broken, type CheckContext, type Found, ok, warning } from './finding.ts';

/** Errors after which no other request can succeed. */
const USELESS = new Set(['AwsCredentialsMissing', 'AwsCredentialsExpired', 'AwsCredentialsInvalid', 'ClockSkewed']);

/** @param source of the region. @throws Error if STS cannot be asked for a reason other than the credentials */
export async function checkAccount(context: CheckContext, source: string): Promise<Found> {
  const { lambda, settings, region } = context;
  try {
    const reply = await queryAws(lambda, 'sts', 'GetCallerIdentity');
    const [account = ''] = reply('Account');
    context.account = account;
    const where = `in the account ${account} and the region ${region} (from ${source})`;
    return [ok(`You are ${reply('Arn')[0]}, ${where}.`), foreignArns(settings, account)];
  } catch (error) {
    const failure = awsFailure(error);
    const isOff = failure?.name === 'AwsUnreachable' && Boolean(process.env.AWS_ENDPOINT_URL);
    if (failure === undefined || !(isOff || USELESS.has(failure.name))) throw error;
    const [what = '', got = '', expected = ''] = failure.message.split(/; (?:got|expected): /);
    return broken(`${what} (${got}).`, `${expected}. The checks that ask AWS are left out`);
  }
}

/** Describes the account and the region of requests to AWS. Default: those of the environment. */
export async function callerOf(region?: string, profile?: string): Promise<string> {
  const lambda = new LambdaClient({ ...(region && { region }), ...(profile && { profile }) });
  const account = await queryAws(lambda, 'sts', 'GetCallerIdentity').then(
    (reply) => `account ${reply('Account')[0]}`,
    (error: Error) => `an account that is not known (${(awsFailure(error) ?? error).name})`,
  );
  return `${account}, ${await lambda.config.region().catch(() => 'no region')}`;
}

/** ARNs of another account work only if its policies allow it. */
function foreignArns(settings: Partial<CheckedSettings>, account: string): Found {
  return Object.entries(settings).map(([name, value]) => {
    const own = typeof value === 'string' && value.startsWith('arn:') ? value.split(':')[4] : undefined;
    if (!own || own === account) return undefined;
    const message = `${name} is an ARN of the account ${own}, and you are in ${account}.`;
    return warning(message, `use the credentials of the account of the stack, or correct ${name}`);
  });
}
