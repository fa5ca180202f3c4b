/** The outputs of a deployed stack. */
import { type CloudFormationClient, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { resourceNames } from '../contract/names.ts';

export interface StackOutputs {
  stateMachineArn: string;
  processorArn: string;
  captureBucket: string;
  /** Manifests, receipts, quarantine and summaries. */
  workBucket: string;
  /** Every output by its name. */
  all: Record<string, string>;
}

/** Returns the STACK_PREFIX that a command is for. @throws Error if it is not set anywhere */
export function stackPrefix(option: string | undefined, dotenv: Record<string, string>): string {
  const prefix = option ?? process.env.STACK_PREFIX ?? dotenv.STACK_PREFIX;
  if (prefix) return prefix;
  throw new Error(
    'STACK_PREFIX is missing; got: nothing; expected: STACK_PREFIX in the environment or .env, or --stack',
  );
}

/**
 * Reads the outputs of a deployed stack.
 *
 * @throws Error that names the remedy if the stack is missing or its deployment is incomplete
 */
export async function readStackOutputs(client: CloudFormationClient, prefix: string): Promise<StackOutputs> {
  const name = resourceNames(prefix).stack;
  const reply = await client.send(new DescribeStacksCommand({ StackName: name })).catch((error: Error) => {
    if (!/does not exist/.test(error.message)) throw error;
    throw new Error(
      `The stack is not deployed; got: no stack ${name} in this account and region; expected: a stack deployed with STACK_PREFIX=${prefix}`,
      { cause: error },
    );
  });
  const outputs = reply.Stacks?.[0]?.Outputs ?? [];
  const all = Object.fromEntries(outputs.map((output) => [output.OutputKey ?? '', output.OutputValue ?? '']));
  const need = (output: string): string => {
    const value = all[output];
    if (value) return value;
    throw new Error(
      `The stack ${name} has no output ${output}; got: ${Object.keys(all).join(', ') || 'none'} in state ${reply.Stacks?.[0]?.StackStatus}; expected: a finished deployment of this version`,
    );
  };
  return {
    stateMachineArn: need('StateMachineArn'),
    processorArn: need('ProcessorLambdaArn'),
    captureBucket: need('DataCaptureBucketName'),
    workBucket: need('WorkBucketName'),
    all,
  };
}
