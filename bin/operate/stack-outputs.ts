/** The outputs of a deployed stack, which it keeps as SSM parameters. */

import type { LambdaClient } from '@aws-sdk/client-lambda';
import { OUTPUT_PARAMETERS, outputPath, type StackOutputs } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { nearest } from '../../src/core/errors/nearest.ts';
import { listAll } from './aws-calls.ts';

/** Outputs with the STACK_PREFIX. */
type FoundOutputs = StackOutputs & { prefix: string };

/**
 * Reads the outputs of a deployed stack, whatever the name of its CloudFormation stack.
 *
 * @param name its STACK_PREFIX; with `orEndpoint`, also the name of its endpoint
 * @throws PermanentError `StackNotDeployed`, `StackPrefixMissing`, `StackIncomplete`
 */
export async function readStackOutputs(lambda: LambdaClient, name: string, orEndpoint = false): Promise<FoundOutputs> {
  const path = outputPath(name);
  const values = await readParameters(lambda, path);
  if (values.size === 0) {
    const stacks = await deployedStacks(lambda);
    const [only, ...others] = stacks.filter(({ endpoint }) => orEndpoint && endpoint === name);
    if (only === undefined) throw notDeployed(name, await lambda.config.region(), stacks);
    if (others.length === 0) return readStackOutputs(lambda, only.prefix);
    const expected = `--stack with one of ${[only, ...others].map(({ prefix }) => prefix).join(', ')}`;
    throw new PermanentError('StackPrefixMissing', 'The endpoint has several stacks', { got: name, expected });
  }
  const found = Object.entries(OUTPUT_PARAMETERS).map(([field, name]) => [field, values.get(path + name)] as const);
  const missing = found.filter(([, value]) => value === undefined).map(([field]) => field);
  if (missing.length === 0) return { ...(Object.fromEntries(found) as StackOutputs), prefix: name };
  throw new PermanentError('StackIncomplete', `The deployment of ${name} is incomplete`, {
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

type Deployed = Pick<StackOutputs, 'endpoint'> & { prefix: string };

/** Returns the deployed stacks. Returns none if the user may only read the parameters of one stack. */
async function deployedStacks(lambda: LambdaClient): Promise<Deployed[]> {
  const values = await readParameters(lambda, outputPath()).catch(() => new Map<string, string>());
  return [...values].sort().flatMap(([path, endpoint]) => {
    const [prefix = '', name] = path.slice(outputPath().length).split('/');
    return name === OUTPUT_PARAMETERS.endpoint ? [{ prefix, endpoint }] : [];
  });
}

/** The error for a name that no stack has. It names the nearest one, and all stacks with their endpoints. */
function notDeployed(name: string, region: string, stacks: readonly Deployed[]): PermanentError {
  const names = stacks.flatMap(({ prefix, endpoint }) => [prefix, endpoint]);
  const like = nearest(name, names);
  const all = stacks.map(({ prefix, endpoint }) => `${prefix} (${endpoint})`).join(', ');
  return new PermanentError('StackNotDeployed', `The stack is not deployed${like ? `; did you mean ${like}?` : ''}`, {
    got: `no stack with STACK_PREFIX=${name} in ${region} of this account`,
    expected: `a deployed stack of this version${all && `: ${all}`}`,
    where: `the SSM parameters below ${outputPath(name)}`,
  });
}
