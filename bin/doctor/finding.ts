/** The findings of `doctor`: for each check the result and its remedy; and helpers that the checks share. */

import { setTimeout as sleep } from 'node:timers/promises';
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { awsFailure, nameOperations } from '../../src/core/errors/aws-failures.ts';
import type { CheckedSettings, Settings } from '../../src/core/settings/schema.ts';
import { environmentClients } from '../operate/aws-clients.ts';

/** The result of a check, and its remedy. */
export interface Finding {
  /** Name of the check, such as `endpoint`. */
  check: string;
  /** `error`: the deployed stack fails or misses captures; `warning`: it may; `unknown`: this check could not run from here. */
  level: 'ok' | 'warning' | 'error' | 'unknown';
  message: string;
  /** The user's remedy. */
  repair?: string;
}

/** A finding before the check's name is added, unless it names another check. */
type Said = Omit<Finding, 'check'> & { check?: string };

/** The result of a check. */
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

/** Reports a finding under the name of another check. */
export const under = (check: string, found: Found): Finding[] => flat(found).map((one) => ({ check, ...one }));

/** A check: its name, the IAM actions that the user needs for it, and its function. */
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

/** Runs checks concurrently. Their findings are in the order of the checks. */
export const checkAll = async <Of>(checks: readonly Check<Of>[], of: Of): Promise<Finding[]> =>
  (await Promise.all(checks.map(([name, action, make]) => checked(name, action, () => make(of))))).flat();

export const hasError = (found: readonly Finding[]): boolean => found.some(({ level }) => level === 'error');

/** Time limit, because a user waits. A service that does not answer by then is treated as unreachable from here. */
const LIMIT_MS = 20_000;

/**
 * Runs a check within a time limit. If it cannot be made, the finding has the reason, and the action that the user
 * lacks.
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
// The settings, and clients with short time limits.

/** `lambda`: also for services without a client of their own (bin/operate/aws-calls.ts). */
export type Clients = ReturnType<typeof quickClients>;

/** The state of a CloudFormation stack. */
export interface DeployedState {
  name: string;
  status: string;
}

export interface CheckContext extends Clients {
  region: string;
  /** The caller's account, once known. */
  account?: string;
  /** The valid settings, with defaults. */
  settings: Partial<CheckedSettings>;
  /** The settings in the stack's form, if all are valid. */
  complete: Settings | undefined;
  /** Ends with `/`. */
  capturePrefix: string | undefined;
  /** The stack of STACK_PREFIX. */
  stack(): Promise<DeployedState | undefined>;
  /** Whether the user states that the stack exists. */
  isNamed: boolean;
}

const QUICK = { maxAttempts: 2, requestHandler: { connectionTimeout: 5_000 } };

export function quickClients(region: string | undefined) {
  const aws = { ...QUICK, ...(region === undefined ? {} : { region }) };
  return { ...environmentClients(aws), bedrock: nameOperations(new BedrockClient(aws)) };
}
