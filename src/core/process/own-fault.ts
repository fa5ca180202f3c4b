/** Distinguishes the failure of one capture from failures that affect all captures. */

import { PipelineError } from '../errors/errors.ts';
import { isOutOfTime, withinTime } from './within-time.ts';

/**
 * Describes an exception that one capture or reply caused: by its name and the function that threw it, and for a
 * timeout, by the interrupted work. Leaves out the message, which can quote captured content.
 *
 * @returns `undefined` for a named error, which describes a failure that is not limited to one capture
 */
export function ownFault(error: unknown): string | undefined {
  if (error instanceof PipelineError) return undefined;
  if (isOutOfTime(error)) return `${error.name}: ${error.message}`;
  if (!(error instanceof Error)) return 'a value that is not an Error was thrown';
  const head = error.message === '' ? error.name : `${error.name}: ${error.message}`;
  const { stack = '' } = error;
  // A message can contain lines that look like stack frames.
  const place = stack.startsWith(head) ? /^\s+at (?:async )?([\w.#<>]+) \(/.exec(stack.slice(head.length)) : null;
  return place === null ? error.name : `${error.name} in ${place[1]}`;
}

/**
 * Does synchronous work on one capture within a time limit.
 *
 * @param failed returns the result if the capture provokes a fault or the time runs out, given the reason
 * @throws a named error of the work
 */
export function unlessFaulty<T>(ms: number, work: () => T, failed: (fault: string) => T): T {
  try {
    return withinTime(ms, work);
  } catch (error) {
    const fault = ownFault(error);
    if (fault === undefined) throw error;
    return failed(fault);
  }
}
