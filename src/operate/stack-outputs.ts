/** The outputs of a deployed stack, which it keeps as SSM parameters. */
import type { LambdaClient } from '@aws-sdk/client-lambda';
import { OUTPUT_PARAMETERS, outputPath, type StackOutputs } from '../contract/names.ts';
import { nearest } from '../shared/nearest.ts';
import { callAws } from './aws-json.ts';

/** Returns the STACK_PREFIX that a command is for. @throws Error if it is not set anywhere */
export function stackPrefix(option: string | undefined, dotenv: Record<string, string>): string {
  const prefix = option ?? process.env.STACK_PREFIX ?? dotenv.STACK_PREFIX;
  if (prefix) return prefix;
  throw new Error(
    'STACK_PREFIX is missing; got: nothing; expected: STACK_PREFIX in the environment or .env, or --stack',
  );
}

/**
 * Reads the outputs of a deployed stack, whatever the name of its CloudFormation stack.
 *
 * @throws Error that names the remedy if the stack is missing or its deployment is incomplete
 */
export async function readStackOutputs({ lambda }: { lambda: LambdaClient }, prefix: string): Promise<StackOutputs> {
  const path = outputPath(prefix);
  const values = await readParameters(lambda, path);
  if (values.size === 0) throw await notDeployed(lambda, prefix);
  const found = Object.entries(OUTPUT_PARAMETERS).map(([field, name]) => [field, values.get(path + name)] as const);
  const missing = found.filter(([, value]) => value === undefined).map(([field]) => field);
  if (missing.length === 0) return Object.fromEntries(found) as StackOutputs;
  throw new Error(
    `The deployment of ${prefix} is incomplete; got: SSM parameters without ${missing.join(', ')}; expected: a finished deployment of this version; where: ${path}`,
  );
}

async function readParameters(lambda: LambdaClient, path: string): Promise<Map<string, string>> {
  const values = new Map<string, string>();
  let NextToken: string | undefined;
  do {
    const page = await callAws<{ Parameters?: { Name: string; Value: string }[]; NextToken?: string }>(
      lambda,
      'ssm',
      'GetParametersByPath',
      { Path: path.replace(/\/$/, ''), Recursive: true, ...(NextToken ? { NextToken } : {}) },
    );
    for (const { Name, Value } of page.Parameters ?? []) values.set(Name, Value);
    NextToken = page.NextToken;
  } while (NextToken);
  return values;
}

/** The error for a prefix that no stack has. It names the nearest of those that are deployed, or all of them. */
async function notDeployed(lambda: LambdaClient, prefix: string): Promise<Error> {
  const region = await lambda.config.region();
  // Reading the parameters of one stack may be all that is allowed.
  const names = await readParameters(lambda, outputPath()).then(
    (values) => [...values.keys()],
    () => [],
  );
  const prefixes = [...new Set(names.map((name) => name.slice(outputPath().length).split('/')[0] ?? ''))].sort();
  const like = nearest(prefix, prefixes);
  const deployed = like
    ? `; did you mean ${like}?`
    : prefixes.length > 0
      ? `; deployed are: ${prefixes.join(', ')}`
      : '';
  return new Error(
    `The stack is not deployed; got: no stack with STACK_PREFIX=${prefix} in ${region} of this account${deployed}; expected: a deployed stack of this version; where: the SSM parameters below ${outputPath(prefix)}`,
  );
}
