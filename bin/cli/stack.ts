/** The deployed stack that a command is for: found by `--stack` or STACK_PREFIX, with clients of its services. */
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { Storage } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import { functionSettings } from '../../src/core/settings/schema.ts';
import { destroyClients, environmentClients } from '../operate/aws-clients.ts';
import type { StateMachines } from '../operate/executions.ts';
import { type FoundRun, findStackRun } from '../operate/run-report.ts';
import { readStackOutputs, stackPrefix } from '../operate/stack-outputs.ts';
import { argument, type FlagsOf, option, options } from './options.ts';
import { jsonOption } from './output.ts';

/** A stack, with clients of its services. `prefix`: its STACK_PREFIX. */
export type DeployedStack = Awaited<ReturnType<typeof openStack>>;

/** The option of every command that needs a stack. */
export const stackOption = () =>
  option('--stack <prefix>', "the stack's STACK_PREFIX (default: from the environment or .env)");

export const runArgument = () => argument('<run>', 'name or ARN of the execution');

/** The options of a command that prints data of a stack. */
export const stackOptions = (json?: string) => options(jsonOption(json), stackOption());

export type StackFlags = FlagsOf<ReturnType<typeof stackOptions>>;

/** Finds the stack. @throws Error that names the remedy if it is not known, not deployed, or its deployment is incomplete */
export async function openStack(flags: StackFlags, clients = environmentClients()) {
  const prefix = stackPrefix(flags.stack, dotenvOfCommand());
  return { prefix, outputs: await readStackOutputs(clients, prefix), clients, storage: new Storage(clients.s3) };
}

/** Finds the stack, does the work and closes the clients. @throws the errors of `openStack` */
export async function withStack<T>(flags: StackFlags, work: (stack: DeployedStack) => Promise<T>): Promise<T> {
  const clients = environmentClients();
  try {
    return await work(await openStack(flags, clients));
  } finally {
    destroyClients(clients);
  }
}

/**
 * Finds a monitoring run, also one that Step Functions has forgotten.
 *
 * @throws PermanentError `NotAMonitoringRun`, `NoSuchRun`, `AmbiguousRun`
 */
export async function monitoringRun(stack: DeployedStack, run: string): Promise<FoundRun> {
  const found = await findStackRun(stack.clients, machinesOf(stack), stack.outputs.workBucket, run);
  if (found.kind !== 'replay') return found;
  const expected = 'a monitoring run; for replays there are inference-monitor runs --replays, stop and compare';
  throw new PermanentError('NotAMonitoringRun', 'The run is a cloud replay', { got: run, expected });
}

/** Returns the state machines of a stack. */
export const machinesOf = ({ outputs }: Pick<DeployedStack, 'outputs'>): StateMachines => ({
  monitoring: outputs.stateMachineArn,
  replay: outputs.replayStateMachineArn,
});

/** Reads the settings that the stack's functions have, as variables. */
export async function deployedSettings({ clients, outputs }: DeployedStack): Promise<Record<string, string>> {
  const request = new GetFunctionConfigurationCommand({ FunctionName: outputs.processorArn });
  return (await clients.lambda.send(request)).Environment?.Variables ?? {};
}

/** Returns the shadow variants of a stack. The figures of the endpoint leave them out. */
export const shadowVariantsOf = async (stack: DeployedStack): Promise<string[]> =>
  functionSettings.SHADOW_VARIANTS.parse((await deployedSettings(stack)).SHADOW_VARIANTS);
