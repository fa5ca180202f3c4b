/** Causes of failed executions, as Step Functions hands them to a function and as it takes them back. */

/** Step Functions keeps 32,768 characters of a cause; a Fail state that is given more fails for another reason. */
const MAX_CAUSE_CHARS = 30_000;

/** A Lambda's failure reaches Step Functions as JSON with its message inside; a service's own as plain text. */
export function causeOf(cause: string): string {
  try {
    const parsed = JSON.parse(cause) as { errorMessage?: unknown };
    return typeof parsed.errorMessage === 'string' ? parsed.errorMessage : cause;
  } catch {
    return cause;
  }
}

/** A cause as a Fail state may be given it. */
export const withinCause = (cause: string): string => cause.slice(0, MAX_CAUSE_CHARS);
