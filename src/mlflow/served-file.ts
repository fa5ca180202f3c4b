/**
 * Writes files that the tracking server stores. Servers that need this method (seen with 3.9 to 3.13) overwrite an existing
 * file in place. If two clients put the same file concurrently (a record in two capture files, in overlapping runs), the
 * file becomes a mixture of both, both get status 200, and MLflow's readers silently skip the trace. Each put is therefore
 * verified: the client that finishes last reads the mixture, and puts the file again.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type RetryPolicy, waitAfter, withRetries } from '../core/process/retry.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import type { Call, MlflowRest } from './rest.ts';

/** Each put is a write and a read. Another client spoils the next one only if it writes within the same milliseconds. */
const MAX_PUTS = 8;
/** Attempts per request. After them the delivery of the trace fails, and its retry first reads what exists. */
const MAX_SENDS = 3;

export interface ServedFile {
  /** Puts the file, and reads it back until the content matches. */
  put(body: Uint8Array): Promise<void>;
  /** Whether the file exists and contains spans, regardless of the client that put it. */
  isWhole(): Promise<boolean>;
}

export function servedFile(rest: MlflowRest, path: string): ServedFile {
  const retry: RetryPolicy = { ...rest.retry, attempts: Math.min(rest.retry.attempts, MAX_SENDS) };
  return {
    isWhole: () => withRetries(retry, () => containsSpans(rest, path)),
    put: async (body) => {
      const call: Call = { method: 'PUT', path, bytes: body, contentType: 'application/json' };
      for (let puts = 1; ; puts += 1) {
        await withRetries(retry, () => rest.bytes(call));
        if (await withRetries(retry, () => isStored(rest, path, body))) return;
        const where = `PUT ${rest.target.baseUrl.origin}${path}`;
        const details = { got: `other content after ${puts} puts`, where, outcome: 'unknown' as const };
        const error = new MlflowRetryableError('MlflowUnavailable', 'MLflow stored a file with other content', details);
        const wait = waitAfter({ ...rest.retry, attempts: MAX_PUTS }, puts);
        if (wait === undefined) throw error;
        await sleep(wait);
      }
    },
  };
}

/** Compares the file while reading it, so that a file of 70 MB is not in memory twice. */
async function isStored(rest: MlflowRest, path: string, body: Uint8Array): Promise<boolean> {
  const expected = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  let at = 0;
  let same = true;
  const isThere = await get(rest, path, (piece) => {
    same &&= expected.subarray(at, at + piece.length).equals(piece);
    at += piece.length;
  });
  return isThere && same && at === expected.length;
}

async function containsSpans(rest: MlflowRest, path: string): Promise<boolean> {
  const pieces: Buffer[] = [];
  if (!(await get(rest, path, (piece) => pieces.push(piece)))) return false;
  try {
    const { spans } = JSON.parse(Buffer.concat(pieces).toString('utf8')) as { spans?: unknown };
    return Array.isArray(spans) && spans.length > 0;
  } catch {
    return false;
  }
}

/** @returns whether the file exists */
async function get(rest: MlflowRest, path: string, receive: (piece: Buffer) => void): Promise<boolean> {
  try {
    await rest.bytes({ method: 'GET', path, receive });
    return true;
  } catch (error) {
    if (error instanceof MlflowRefusedError && error.status === 404) return false;
    throw error;
  }
}
