/**
 * A file that the tracking server keeps. Servers that need this way of writing (seen with 3.9 to 3.13) copy what they are
 * sent over the file that is there: two who put the same file at the same time (a record that lies in two capture files,
 * in runs that overlap) leave a mixture of both, both are told 200, and MLflow's readers then leave the trace out
 * without a word. A file is therefore read back: whoever ends last sees what is really there, and puts it again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type RetryPolicy, waitAfter, withRetries } from '../shared/retry.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import type { Call, MlflowRest } from './rest.ts';

/** Each put is 1 write and 1 read; a twin spoils the next one only if it comes within the same milliseconds again. */
const MOST_PUTS = 8;
/** Of one request; what fails longer is a failure of the trace's sending, which reads what exists and begins anew. */
const MOST_SENDS = 3;

export interface ServedFile {
  /** Puts the file and reads it back until it is what was put. */
  put(body: Uint8Array): Promise<void>;
  /** Whether the file is there and holds spans, whoever has put it. */
  isWhole(): Promise<boolean>;
}

export function servedFile(rest: MlflowRest, path: string): ServedFile {
  const retry: RetryPolicy = { ...rest.retry, attempts: Math.min(rest.retry.attempts, MOST_SENDS) };
  return {
    isWhole: () => withRetries(retry, () => holdsSpans(rest, path)),
    put: async (body) => {
      const call: Call = { method: 'PUT', path, bytes: body, contentType: 'application/json' };
      for (let puts = 1; ; puts += 1) {
        await withRetries(retry, () => rest.bytes(call));
        if (await withRetries(retry, () => holds(rest, path, body))) return;
        const where = `PUT ${rest.target.baseUrl.origin}${path}`;
        const details = { got: `another file, ${puts} times`, where, outcome: 'unknown' as const };
        const error = new MlflowRetryableError(
          'MlflowUnavailable',
          'MLflow does not keep a file as it is put',
          details,
        );
        const wait = waitAfter({ ...rest.retry, attempts: MOST_PUTS }, puts);
        if (wait === undefined) throw error;
        await sleep(wait);
      }
    },
  };
}

/** Compares while it reads, so that a file of 70 MB is not held a second time. */
async function holds(rest: MlflowRest, path: string, body: Uint8Array): Promise<boolean> {
  const expected = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let at = 0;
  let same = true;
  const isThere = await get(rest, path, (piece) => {
    same &&= expected.subarray(at, at + piece.length).equals(piece);
    at += piece.length;
  });
  return isThere && same && at === expected.length;
}

async function holdsSpans(rest: MlflowRest, path: string): Promise<boolean> {
  const pieces: Buffer[] = [];
  if (!(await get(rest, path, (piece) => pieces.push(piece)))) return false;
  try {
    const { spans } = JSON.parse(Buffer.concat(pieces).toString('utf8')) as { spans?: unknown };
    return Array.isArray(spans) && spans.length > 0;
  } catch {
    return false;
  }
}

/** @returns whether there is such a file */
async function get(rest: MlflowRest, path: string, receive: (piece: Buffer) => void): Promise<boolean> {
  try {
    await rest.bytes({ method: 'GET', path, receive });
    return true;
  } catch (error) {
    if (error instanceof MlflowRefusedError && error.status === 404) return false;
    throw error;
  }
}
