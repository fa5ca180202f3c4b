/** Stores artifacts at their location: behind the tracking server, or directly in S3. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { S3Client } from '@aws-sdk/client-s3';
import { PermanentError, saidBy } from '../core/errors/errors.ts';
import { type RetryPolicy, waitAfter, withRetries } from '../core/process/retry.ts';
import { jsonIn } from '../core/values/json-in.ts';
import { MlflowRefusedError, MlflowRetryableError } from './errors.ts';
import type { Call, MlflowRest } from './rest.ts';
import type { Experiment } from './types.ts';

/** Stores the spans of traces as files. Putting a file again has no effect. */
export interface SpansStore {
  /** Whether the tracking server stores the files itself, so that files and posts wait for the same server. */
  served: boolean;
  /** Resolves when the whole file is stored. */
  put(traceId: string, body: Uint8Array): Promise<void>;
  /** Puts the file of an existing trace again, if it is missing or incomplete. */
  mend(traceId: string, body: Uint8Array): Promise<void>;
}

const FILE = 'artifacts/traces.json';

/**
 * Returns the folder of an artifact location: its path at the tracking server, or its bucket and key prefix in S3. Paths and
 * prefixes end with a slash.
 *
 * @returns `undefined` for a location that the client cannot write to
 */
export function artifactFolder(location: string): { path: string } | { bucket: string; prefix: string } | undefined {
  const uri = location.replace(/\/+$/, '');
  const folder = (name: string | undefined): string => (name ? `${name}/` : '');
  const served = /^mlflow-artifacts:(?:\/\/[^/]*)?\/*(.*)$/.exec(uri);
  if (served) return { path: `/api/2.0/mlflow-artifacts/artifacts/${folder(served[1])}` };
  const inS3 = /^s3:\/\/([^/]+)\/*(.*)$/.exec(uri);
  return inS3 ? { bucket: inS3[1] as string, prefix: folder(inS3[2]) } : undefined;
}

/** @throws PermanentError `MlflowArtifactStoreUnsupported`, `MlflowS3ClientMissing` */
export function spansStore(rest: MlflowRest, experiment: Experiment, s3: S3Client | undefined): SpansStore {
  const folder = artifactFolder(experiment.artifactLocation);
  if (folder === undefined) {
    const what = 'The artifact location of the experiment is not supported';
    const expected = 'mlflow-artifacts:/… (a server that serves artifacts) or s3://…';
    const where = `experiment "${experiment.name}" (id ${experiment.id})`;
    const facts = { got: experiment.artifactLocation, expected, where };
    throw new PermanentError('MlflowArtifactStoreUnsupported', what, facts);
  }
  if ('path' in folder) {
    const file = (traceId: string) => servedFile(rest, `${folder.path}traces/${traceId}/${FILE}`);
    return {
      served: true,
      put: (traceId, body) => file(traceId).put(body),
      mend: async (traceId, body) => {
        if (!(await file(traceId).isWhole())) await file(traceId).put(body);
      },
    };
  }
  if (s3 === undefined) {
    const facts = { got: experiment.artifactLocation, expected: 'an S3 client among the options of the MLflow client' };
    throw new PermanentError('MlflowS3ClientMissing', 'The experiment stores its spans in S3', facts);
  }
  return {
    served: false,
    put: (traceId, body) => putToS3(s3, folder.bucket, `${folder.prefix}traces/${traceId}/${FILE}`, body),
    // S3 writes an object atomically, and the object is written before its trace.
    mend: async () => undefined,
  };
}

/** @throws PermanentError `MlflowArtifactAccessDenied`, and the errors of the storage */
export async function putToS3(
  s3: S3Client,
  bucket: string,
  key: string,
  body: Uint8Array,
  contentType = 'application/json',
): Promise<void> {
  // Loaded on first use: it takes 35 MB of memory that writing by OTLP does not need.
  const { PutObjectCommand } = await import('@aws-sdk/client-s3');
  try {
    await s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: contentType }));
  } catch (error) {
    const { namedStorageError } = await import('../core/aws/storage-errors.ts');
    const named = namedStorageError(error, `s3://${bucket}/${key}`);
    if (named.name !== 'StorageAccessDenied') throw named;
    // S3 names the missing permission: its own, or the KMS key's if the bucket is encrypted with one.
    const facts = {
      got: saidBy(error),
      expected: 's3:PutObject on it: set MLFLOW_ARTIFACT_BUCKET',
      where: `s3://${bucket}/${key}`,
    };
    throw new PermanentError('MlflowArtifactAccessDenied', 'MLflow’s artifact bucket denied access', facts, error);
  }
}

/** Each put is a write and a read. Another client spoils the next one only if it writes within the same milliseconds. */
const MAX_PUTS = 8;
/**
 * Attempts per request. After the last attempt, the delivery of the trace fails, and its retry first reads what exists.
 */
const MAX_SENDS = 3;

/**
 * A file that the tracking server stores. Servers that need this method (seen with 3.9 to 3.13) overwrite an existing
 * file in place. If two clients put the same file concurrently (a record in two capture files, in overlapping runs), the
 * file becomes a mixture of both, both get status 200, and MLflow's readers silently skip the trace. Each put is therefore
 * verified: the client that finishes last reads the mixture, and puts the file again.
 */
function servedFile(rest: MlflowRest, path: string) {
  const retry: RetryPolicy = { ...rest.retry, attempts: Math.min(rest.retry.attempts, MAX_SENDS) };
  return {
    /** Whether the file exists and contains spans, regardless of the client that put it. */
    isWhole: () => withRetries(retry, () => containsSpans(rest, path)),
    /** Puts the file, and reads it back until the content matches. */
    put: async (body: Uint8Array): Promise<void> => {
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
  const { spans } = Object(jsonIn(Buffer.concat(pieces)));
  return Array.isArray(spans) && spans.length > 0;
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
