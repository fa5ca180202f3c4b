/** What `doctor` finds: for each check what is, and what to do about it. */
import { awsFailure } from '../../src/core/errors/aws-failures.ts';

export interface Finding {
  /** What was checked, such as `endpoint`. */
  check: string;
  /** `error`: the deployed stack fails or misses captures; `warning`: it may; `unknown`: this could not be asked from here. */
  level: 'ok' | 'warning' | 'error' | 'unknown';
  message: string;
  /** What a person can do. */
  repair?: string;
}

/** What a check returns. */
export type Found = Finding | false | undefined | readonly Found[];

/** Returns functions that make the findings of a check, by level. */
export function findingsOf(check: string) {
  const of =
    (level: Finding['level']) =>
    (message: string, repair?: string): Finding => ({
      check,
      level,
      message,
      ...(repair === undefined ? {} : { repair }),
    });
  return { ok: of('ok'), warning: of('warning'), error: of('error'), unknown: of('unknown') };
}

/** What it is called, the actions in IAM that a person needs for it, and how it is made. */
export type Check<Of> = readonly [name: string, action: string, make: (of: Of) => Promise<Found>];

/** Makes checks at the same time. Their findings are in the order of the checks. */
export const checkAll = async <Of>(checks: readonly Check<Of>[], of: Of): Promise<Finding[]> =>
  (await Promise.all(checks.map(([name, action, make]) => checked(name, action, () => make(of))))).flat();

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
    if (made !== TIMED_OUT) return flat(made);
    const message = `${check}: there was no answer within ${LIMIT_MS / 1000} s.`;
    return [findingsOf(check).unknown(message, 'check the network and try again')];
  } catch (error) {
    return [unasked(check, action, error)];
  } finally {
    clearTimeout(timer);
  }
}

const isList = (found: Found): found is readonly Found[] => Array.isArray(found);
const flat = (found: Found): Finding[] => (isList(found) ? found.flatMap(flat) : found ? [found] : []);

function unasked(check: string, action: string, error: unknown): Finding {
  const { unknown } = findingsOf(check);
  const failure = awsFailure(error);
  if (failure?.name === 'AccessDenied')
    return unknown(`You are not allowed to ask about ${check}.`, `allow yourself ${action}`);
  const { name, message } = failure ?? (error as Error);
  const [said = ''] = message.split('\n');
  const { AWS_ENDPOINT_URL: emulator } = process.env;
  const repair = emulator && `AWS_ENDPOINT_URL is ${emulator}: an emulator may not have this service`;
  return unknown(`${check} could not be asked (${name}: ${said}).`, repair);
}
