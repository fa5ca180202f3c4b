/** What `doctor` finds: for each check what is, and what to do about it; and what the checks share. */

import { setTimeout as sleep } from 'node:timers/promises';
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { awsFailure, nameOperations } from '../../src/core/errors/aws-failures.ts';
import type { CheckedSettings, Settings } from '../../src/core/settings/schema.ts';
import { environmentClients } from '../operate/aws-clients.ts';

/** The result of a check, and what to do about it. */
export interface Finding {
  /** What was checked, such as `endpoint`. */
  check: string;
  /** `error`: the deployed stack fails or misses captures; `warning`: it may; `unknown`: this check could not run from here. */
  level: 'ok' | 'warning' | 'error' | 'unknown';
  message: string;
  /** What a person can do. */
  repair?: string;
}

/** What a check finds; its name is added, unless it says another one. */
type Said = Omit<Finding, 'check'> & { check?: string };

/** What a check returns. */
export type Found = Said | false | undefined | readonly Found[];

const finding =
  (level: Finding['level']) =>
  (message: string, repair?: string): Said => ({ level, message, ...(repair === undefined ? {} : { repair }) });
export const ok = finding('ok');
export const warning = finding('warning');
export const broken = finding('error');
export const unknown = finding('unknown');

const isList = (found: Found): found is readonly Found[] => Array.isArray(found);
const flat = (found: Found): Said[] => (isList(found) ? found.flatMap(flat) : found ? [found] : []);

/** Says what a check has found under the name of another one. */
export const under = (check: string, found: Found): Finding[] => flat(found).map((one) => ({ check, ...one }));

/** Of a check: its name, the actions in IAM that a person needs for it, and how it is made. */
export type Check<Of> = readonly [name: string, action: string, make: (of: Of) => Promise<Found>];

/** A check of a setting, which is made if the setting has a value, or a list of some. */
export const checkOf = <Name extends keyof CheckedSettings>(
  setting: Name,
  name: string,
  action: string,
  make: (of: CheckContext, value: NonNullable<CheckedSettings[Name]>, setting: Name) => Promise<Found>,
): Check<CheckContext> => {
  const ifSet = async (of: CheckContext) => {
    const value = of.settings[setting];
    const isSet = value !== undefined && [value].flat().length > 0;
    return isSet && make(of, value as NonNullable<CheckedSettings[Name]>, setting);
  };
  return [name, action, ifSet];
};

/** Makes checks at the same time. Their findings are in the order of the checks. */
export const checkAll = async <Of>(checks: readonly Check<Of>[], of: Of): Promise<Finding[]> =>
  (await Promise.all(checks.map(([name, action, make]) => checked(name, action, () => make(of))))).flat();

export const hasError = (found: readonly Finding[]): boolean => found.some(({ level }) => level === 'error');

/** A person waits. What does not answer by then does not answer from here. */
const LIMIT_MS = 20_000;

/**
 * Makes a check within a time limit. One that cannot be made says why, and names the action that a person lacks.
 *
 * @param action in IAM
 */
export async function checked(check: string, action: string, make: () => Promise<Found>, limitMs = LIMIT_MS) {
  const late = unknown(`${check}: there was no answer within ${limitMs / 1000} s.`, 'check the network and try again');
  const limit = sleep(limitMs, late, { ref: false });
  return under(check, await Promise.race([make(), limit]).catch((error: unknown) => unasked(check, action, error)));
}

function unasked(check: string, action: string, error: unknown): Said {
  const failure = awsFailure(error);
  if (failure?.name === 'AccessDenied') return unknown(`No permission to check ${check}.`, `needs ${action}`);
  const { name, message } = failure ?? (error as Error);
  const [said = ''] = message.split('\n');
  const { AWS_ENDPOINT_URL: emulator } = process.env;
  const repair = emulator && `AWS_ENDPOINT_URL is ${emulator}: an emulator may not have this service`;
  return unknown(`Could not check ${check} (${name}: ${said}).`, repair);
}

// ----------------------------------------------------------------------------------------------- what checks share
// The settings, and clients that do not make a person wait.

/** `lambda`: also for services without a client of their own (bin/operate/aws-calls.ts). */
export type Clients = ReturnType<typeof quickClients>;

/** The state of a CloudFormation stack. */
export interface DeployedState {
  name: string;
  status: string;
}

export interface CheckContext extends Clients {
  region: string;
  /** That of the caller, once it is known. */
  account?: string;
  /** The valid ones, with defaults. */
  settings: Partial<CheckedSettings>;
  /** As the stack has them, if all are valid. */
  complete: Settings | undefined;
  /** Ends with `/`. */
  capturePrefix: string | undefined;
  /** The stack of STACK_PREFIX. */
  stack(): Promise<DeployedState | undefined>;
  /** The person says that there is a stack. */
  isNamed: boolean;
}

const QUICK = { maxAttempts: 2, requestHandler: { connectionTimeout: 5_000 } };

export function quickClients(region: string | undefined) {
  const aws = { ...QUICK, ...(region === undefined ? {} : { region }) };
  return { ...environmentClients(aws), bedrock: nameOperations(new BedrockClient(aws)) };
}
