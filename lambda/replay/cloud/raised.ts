/** What stopped a step of a state machine, in words. */
import type { Raised } from '../../replay-contract.ts';

/** A Lambda's failure reaches Step Functions as JSON with its message inside; a service's own as plain text. */
export function causeOf(cause: string): string {
  try {
    const parsed = JSON.parse(cause) as { errorMessage?: unknown };
    return typeof parsed.errorMessage === 'string' ? parsed.errorMessage : cause;
  } catch {
    return cause;
  }
}

export const raisedText = ({ Error: name, Cause }: Raised): string => {
  const cause = causeOf(Cause);
  return cause === '' ? name : `${name}: ${cause}`;
};
