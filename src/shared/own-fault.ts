/** Tells what went wrong with one capture from what has gone wrong for all. */
import { PipelineError } from './errors.ts';
import { isOutOfTime } from './within-time.ts';

/**
 * What an exception says of the one capture, or reply, that was at hand: its name and the function it came from. Never its
 * message, which may quote what was captured; but of one that ran out of time, what it was at.
 *
 * @returns `undefined` for a named error: whoever threw that knew what stands still, and for whom
 */
export function ownFault(error: unknown): string | undefined {
  if (error instanceof PipelineError) return undefined;
  if (isOutOfTime(error)) return `${error.name}: ${error.message}`;
  if (!(error instanceof Error)) return 'something that is no error was thrown';
  const head = error.message === '' ? error.name : `${error.name}: ${error.message}`;
  const { stack = '' } = error;
  // A message may have lines of its own that look like a place.
  const place = stack.startsWith(head) ? /^\s+at (?:async )?([\w.#<>]+) \(/.exec(stack.slice(head.length)) : null;
  return place === null ? error.name : `${error.name} in ${place[1]}`;
}
