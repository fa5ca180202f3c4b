/**
 * The deployed stack for a command, with clients of its services: from `--stack`, else from STACK_PREFIX in the
 * environment, else from `.env`. Everything that a command reports about the endpoint comes from this stack's deployed
 * settings.
 */
import { Storage } from '../../src/core/aws/storage.ts';
import { areaOf, workKeys } from '../../src/core/contract/work-keys.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { dotenvOfCommand } from '../../src/core/settings/dotenv-file.ts';
import { readExcluded } from '../../src/ledger/excluded.ts';
import { functionVariables } from '../operate/aws-calls.ts';
import { environmentClients } from '../operate/aws-clients.ts';
import { findExecution, type StateMachines } from '../operate/executions.ts';
import type { FoundRun } from '../operate/run-report.ts';
import { readStackOutputs } from '../operate/stack-outputs.ts';
import { argument, type FlagsOf, option, options } from './options.ts';
import { jsonOption } from './output.ts';
import { type CommandSettings, commandSettings, LOGINS, type SettingFlags } from './settings.ts';

/**
 * A stack, with clients of its services. `prefix`: its STACK_PREFIX; `flag`: `--stack` of commands to copy, absent if they find it without;
 * `about`: for the first line, and JSON.
 */
export type DeployedStack = Awaited<ReturnType<typeof openStack>>;

/** The option of every command about a stack. */
export const stackOption = () =>
  option('--stack <name>', 'STACK_PREFIX of the stack, or its endpoint (default: STACK_PREFIX, also of .env)');

export const runArgument = () => argument('<run>', 'name or ARN of the execution');

/** The options of a command that prints data of a stack. */
export const stackOptions = () => options(jsonOption(), stackOption());

export type StackFlags = FlagsOf<ReturnType<typeof stackOptions>>;

/**
 * Finds the stack. Its clients end with the process, which idle connections do not keep running.
 *
 * @throws Error that names the remedy if the stack is unknown, not deployed, or its deployment is incomplete
 *
 * @example
 *     const { outputs } = await openStack(flags);
 */
export async function openStack({ stack }: Pick<StackFlags, 'stack'>, clients = environmentClients()) {
  const { STACK_PREFIX: own } = dotenvOfCommand();
  const name = stack ?? (process.env.STACK_PREFIX || own);
  const expected = 'STACK_PREFIX in the environment or .env, or --stack';
  if (!name) throw new PermanentError('StackPrefixMissing', 'STACK_PREFIX is missing', { got: 'nothing', expected });
  const outputs = await readStackOutputs(clients.lambda, name, stack !== undefined);
  const { prefix, endpoint } = outputs;
  // A variable of the environment may have been set only for this command.
  const flag = prefix === own && prefix === (process.env.STACK_PREFIX || own) ? undefined : prefix;
  const storage = new Storage(clients.s3);
  const work = { storage, workBucket: outputs.workBucket };
  return { prefix, outputs, clients, storage, work, flag, about: { endpoint, stack: prefix } };
}

/**
 * Finds a monitoring run, also one that Step Functions has forgotten, of which the work bucket has a summary or
 * quarantined lines.
 *
 * @throws PermanentError `NotAMonitoringRun`, `NoSuchRun`, `AmbiguousRun`
 */
export async function monitoringRun(stack: DeployedStack, run: string): Promise<FoundRun> {
  const { clients, storage, outputs } = stack;
  const found = await findExecution(clients.sfn, machinesOf(stack), run).catch(
    async (error: Error): Promise<FoundRun> => {
      const name = run.split(':').at(-1) ?? run;
      const kept = error.name === 'NoSuchRun' ? [workKeys.summary(name), areaOf('quarantine', name)] : [];
      for (const prefix of kept) if (await storage.hasAny(outputs.workBucket, prefix)) return { name };
      throw error;
    },
  );
  if (found.kind !== 'replay') return found;
  const expected = 'a monitoring run; for replays there are runs --replays, stop and compare';
  throw new PermanentError('NotAMonitoringRun', 'The run is a cloud replay', { got: run, expected });
}

/** Returns the state machines of a stack. */
export const machinesOf = ({ outputs }: Pick<DeployedStack, 'outputs'>): StateMachines => ({
  monitoring: outputs.stateMachineArn,
  replay: outputs.replayStateMachineArn,
});

/** Reads the settings that the stack's functions have, as variables. */
export const deployedSettings = ({ clients, outputs }: DeployedStack): Promise<Record<string, string>> =>
  functionVariables(clients.lambda, outputs.processorArn);

/**
 * Returns the deployed settings with the user's logins. Other variables of the environment and of `.env` are not used.
 */
export async function stackSettings(stack: DeployedStack, flags?: SettingFlags): Promise<CommandSettings> {
  const own: NodeJS.ProcessEnv = { ...dotenvOfCommand(), ...process.env };
  const logins = Object.fromEntries(LOGINS.map((name) => [name, own[name]]));
  const settings = commandSettings(flags, { ...logins, ...(await deployedSettings(stack)) });
  return { ...settings, excluded: () => readExcluded(stack.work) };
}
