/** The outputs of a deployed stack, which it keeps as SSM parameters. */

import type { LambdaClient } from '@aws-sdk/client-lambda';
import { OUTPUT_PARAMETERS, outputPath, type StackOutputs } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/errors/nearest.ts';
import { listAll } from './aws-calls.ts';

/** Returns the STACK_PREFIX that a command is for. @throws PermanentError `StackPrefixMissing` */
export function stackPrefix(option: string | undefined, dotenv: Record<string, string>): string {
  const prefix = option ?? process.env.STACK_PREFIX ?? dotenv.STACK_PREFIX;
  if (prefix) return prefix;
  const expected = 'STACK_PREFIX in the environment or .env, or --stack';
  throw new PermanentError('StackPrefixMissing', 'STACK_PREFIX is missing', { got: 'nothing', expected });
}

/**
 * Reads the outputs of a deployed stack, whatever the name of its CloudFormation stack.
 *
 * @throws PermanentError `StackNotDeployed`, `StackIncomplete`
 */
export async function readStackOutputs({ lambda }: { lambda: LambdaClient }, prefix: string): Promise<StackOutputs> {
  const path = outputPath(prefix);
  const values = await readParameters(lambda, path);
  if (values.size === 0) throw notDeployed(prefix, await lambda.config.region(), await deployedPrefixes(lambda));
  const found = Object.entries(OUTPUT_PARAMETERS).map(([field, name]) => [field, values.get(path + name)] as const);
  const missing = found.filter(([, value]) => value === undefined).map(([field]) => field);
  if (missing.length === 0) return Object.fromEntries(found) as StackOutputs;
  throw new PermanentError('StackIncomplete', `The deployment of ${prefix} is incomplete`, {
    got: `SSM parameters without ${missing.join(', ')}`,
    expected: 'a finished deployment of this version',
    where: path,
  });
}

async function readParameters(lambda: LambdaClient, path: string): Promise<Map<string, string>> {
  const input = { Path: path.replace(/\/$/, ''), Recursive: true };
  type Parameter = { Name: string; Value: string };
  const found = await listAll<Parameter>('Parameters', lambda, 'ssm', 'GetParametersByPath', input);
  return new Map(found.map(({ Name, Value }) => [Name, Value]));
}

/** Returns the prefixes of the deployed stacks; none if reading the parameters of one stack is all that is allowed. */
async function deployedPrefixes(lambda: LambdaClient): Promise<string[]> {
  const names = await readParameters(lambda, outputPath()).then(
    (values) => [...values.keys()],
    () => [],
  );
  return [...new Set(names.map((name) => name.slice(outputPath().length).split('/')[0] ?? ''))].sort();
}

/** The error for a prefix that no stack has. It names the nearest of those that are deployed, or all of them. */
function notDeployed(prefix: string, region: string, prefixes: readonly string[]): PermanentError {
  const like = nearest(prefix, prefixes);
  const deployed = like
    ? `; did you mean ${like}?`
    : prefixes.length > 0
      ? `; deployed are: ${prefixes.join(', ')}`
      : '';
  return new PermanentError('StackNotDeployed', 'The stack is not deployed', {
    got: `no stack with STACK_PREFIX=${prefix} in ${region} of this account${deployed}`,
    expected: 'a deployed stack of this version',
    where: `the SSM parameters below ${outputPath(prefix)}`,
  });
}
