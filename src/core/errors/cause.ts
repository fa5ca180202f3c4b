/** Reads and shortens the causes of failed executions, as Step Functions passes them to and from functions. */
import { jsonIn } from '../values/json-in.ts';

/** Step Functions allows 32,768 characters. A Fail state with a longer cause fails with a different error. */
const MAX_CAUSE_CHARS = 30_000;

/** Returns the message of a cause. A Lambda’s failure is JSON that contains the message, a service’s is plain text. */
export function causeOf(cause: string): string {
  const { errorMessage } = Object(jsonIn(cause));
  return typeof errorMessage === 'string' ? errorMessage : cause;
}

/** Shortens a cause to a length that a Fail state accepts. */
export const withinCause = (cause: string): string => cause.slice(0, MAX_CAUSE_CHARS);
