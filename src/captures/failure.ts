/** Decides whether the call of a capture failed, and whether the endpoint is at fault. */
import type { Capture, CaptureError } from './types.ts';

/** Returns the error in the reply, or an error that only the caller saw: a missing reply or a broken stream. */
export function failureOf({ error, call }: Pick<Capture, 'error' | 'call'>): CaptureError | undefined {
  const { status: statusCode = 0, error: seen } = call ?? {};
  if (error !== undefined || (seen === undefined && statusCode < 400)) return error;
  const message = seen?.kind ?? 'the caller got an error';
  return { ...(statusCode > 0 && { statusCode }), ...(seen && { type: seen.class }), message };
}

/** Errors of the way to the endpoint, and of the caller itself. */
const OF_CALLER = ['no-connection', 'aborted'];

/**
 * Returns the kind of a call without a reply if the call must not count in the rates. Unless the client writes all
 * calls, it writes only the failed unstreamed calls, so their total is unknown.
 */
export function kindBesideRates({ call }: Pick<Capture, 'call'>): string | undefined {
  if (call?.ended !== 'failed') return undefined;
  const kind = call.error?.kind ?? '';
  const areAllWritten = call.streamed || call.calls === 'all';
  return areAllWritten && !OF_CALLER.includes(kind) ? undefined : kind;
}
