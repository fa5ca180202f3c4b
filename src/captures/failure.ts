/** Whether the call of a capture failed, and whether that says something about the endpoint. */
import type { Capture, CaptureError } from './types.ts';

/** Returns the error of the reply, or the one that only the caller saw: no reply came, or its stream broke. */
export function failureOf({ error, call }: Pick<Capture, 'error' | 'call'>): CaptureError | undefined {
  const { status: statusCode = 0, error: seen } = call ?? {};
  if (error !== undefined || (seen === undefined && statusCode < 400)) return error;
  const message = seen?.kind ?? 'the caller got an error';
  return { ...(statusCode > 0 && { statusCode }), ...(seen && { type: seen.class }), message };
}

/** Errors of the way to the endpoint, and of the caller itself. */
const OF_CALLER = ['no-connection', 'aborted'];

/**
 * Returns the kind of a call without a reply that is no capture of the rates. Of an unstreamed call the client writes only what failed,
 * unless it writes all calls, so that nobody knows of how many.
 */
export function kindBesideRates({ call }: Pick<Capture, 'call'>): string | undefined {
  if (call?.ended !== 'failed') return undefined;
  const kind = call.error?.kind ?? '';
  const areAllWritten = call.streamed || call.calls === 'all';
  return areAllWritten && !OF_CALLER.includes(kind) ? undefined : kind;
}
