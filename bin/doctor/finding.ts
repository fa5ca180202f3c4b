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

export const finding = (level: Finding['level'], check: string, message: string, repair?: string): Finding => ({
  check,
  level,
  message,
  ...(repair === undefined ? {} : { repair }),
});

/** A person waits. What does not answer by then does not answer from here. */
const LIMIT_MS = 20_000;

const TIMED_OUT = Symbol('timed out');

/**
 * Makes a check within a time limit. One that cannot be made says why, and names the action that a person lacks.
 *
 * @param action in IAM
 */
export async function checked(check: string, action: string, make: () => Promise<Finding[]>): Promise<Finding[]> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<typeof TIMED_OUT>((resolve) => {
    timer = setTimeout(resolve, LIMIT_MS, TIMED_OUT);
  });
  try {
    const made = await Promise.race([make(), limit]);
    if (made !== TIMED_OUT) return made;
    return [
      finding(
        'unknown',
        check,
        `${check}: there was no answer within ${LIMIT_MS / 1000} s.`,
        'check the network and try again',
      ),
    ];
  } catch (error) {
    return [unasked(check, action, error)];
  } finally {
    clearTimeout(timer);
  }
}

function unasked(check: string, action: string, error: unknown): Finding {
  const failure = awsFailure(error);
  if (failure?.name === 'AccessDenied') {
    return finding('unknown', check, `You are not allowed to ask about ${check}.`, `allow yourself ${action}`);
  }
  const { name, message } = failure ?? (error as Error);
  const [said = ''] = message.split('\n');
  const { AWS_ENDPOINT_URL: emulator } = process.env;
  const repair = emulator && `AWS_ENDPOINT_URL is ${emulator}: an emulator may not have this service`;
  return finding('unknown', check, `${check} could not be asked (${name}: ${said}).`, repair);
}
