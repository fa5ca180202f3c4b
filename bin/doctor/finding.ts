/** What `doctor` finds: for each check what is, and what to do about it; and what the checks share. */

import { BedrockClient } from '@aws-sdk/client-bedrock';
import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { awsFailure, nameOperations } from '../../src/core/errors/aws-failures.ts';
import type { CheckedSettings, Settings } from '../../src/core/settings/schema.ts';

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

/** Says what a check has found under the name of another one. */
export const under = (check: string, found: Found): Finding[] => flat(found).map((one) => ({ check, ...one }));

/** Of a check: its name, the actions in IAM that a person needs for it, and how it is made. */
export type Check<Of> = readonly [name: string, action: string, make: (of: Of) => Promise<Found>];

/** Makes checks at the same time. Their findings are in the order of the checks. */
export const checkAll = async <Of>(checks: readonly Check<Of>[], of: Of): Promise<Finding[]> =>
  (await Promise.all(checks.map(([name, action, make]) => checked(name, action, () => make(of))))).flat();

export const hasError = (found: readonly Finding[]): boolean => found.some(({ level }) => level === 'error');

/** A person waits. What does not answer by then does not answer from here. */
const LIMIT_MS = 20_000;

const TIMED_OUT = Symbol('timed out');

/**
 * Makes a check within a time limit. One that cannot be made says why, and names the action that a person lacks.
 *
 * @param action in IAM
 */
export async function checked(check: string, action: string, make: () => Promise<Found>): Promise<Finding[]> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<typeof TIMED_OUT>((resolve) => {
    timer = setTimeout(resolve, LIMIT_MS, TIMED_OUT);
  });
  try {
    const made = await Promise.race([make(), limit]);
    if (made !== TIMED_OUT) return under(check, made);
    const message = `${check}: there was no answer within ${LIMIT_MS / 1000} s.`;
    return under(check, unknown(message, 'check the network and try again'));
  } catch (error) {
    return under(check, unasked(check, action, error));
  } finally {
    clearTimeout(timer);
  }
}

const isList = (found: Found): found is readonly Found[] => Array.isArray(found);
const flat = (found: Found): Said[] => (isList(found) ? found.flatMap(flat) : found ? [found] : []);

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
  /** The valid ones, with defaults. */
  settings: Partial<CheckedSettings>;
  /** As the stack has them, if all are valid. */
  complete: Settings | undefined;
  /** Ends with `/`. */
  capturePrefix: string | undefined;
  /** The stack of STACK_PREFIX. */
  stack: Promise<DeployedState | undefined>;
  /** Whether its functions are there; `undefined` if that could not be checked. */
  isDeployed: Promise<boolean | undefined>;
  /** The person says that there is a stack. */
  isNamed: boolean;
}

const QUICK = { maxAttempts: 2, requestHandler: { connectionTimeout: 5_000 } };

export function quickClients(region: string | undefined) {
  const aws = { ...QUICK, ...(region === undefined ? {} : { region }) };
  const emulated = process.env.AWS_ENDPOINT_URL ?? process.env.AWS_ENDPOINT_URL_S3;
  return {
    bedrock: nameOperations(new BedrockClient(aws)),
    cloudFormation: nameOperations(new CloudFormationClient(aws)),
    lambda: nameOperations(new LambdaClient(aws)),
    s3: nameOperations(new S3Client({ ...aws, forcePathStyle: emulated !== undefined })),
  };
}
