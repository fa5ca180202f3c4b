/** Where `traces.json` of a trace is put: through the tracking server, or straight to S3. */
import type { S3Client } from '@aws-sdk/client-s3';
import { PermanentError, saidBy } from '../shared/errors.ts';
import type { MlflowRest } from './rest.ts';
import { type ServedFile, servedFile } from './served-file.ts';
import type { Experiment } from './types.ts';

/** The files of spans; putting one again changes nothing. */
interface SpansStore {
  /** The file is there whole when this returns. */
  put(traceId: string, body: Uint8Array): Promise<void>;
  /** Puts the file of a trace that exists again where it is not there whole. */
  mend(traceId: string, body: Uint8Array): Promise<void>;
}

const FILE = 'artifacts/traces.json';

/** @throws PermanentError `MlflowArtifactStoreUnsupported`, `MlflowS3ClientMissing` */
export function spansStore(rest: MlflowRest, experiment: Experiment, s3: S3Client | undefined): SpansStore {
  const location = experiment.artifactLocation.replace(/\/+$/, '');
  const served = /^mlflow-artifacts:(?:\/\/[^/]*)?\/*(.*)$/.exec(location);
  if (served) {
    const root = ['/api/2.0/mlflow-artifacts/artifacts', served[1]].filter(Boolean).join('/');
    const file = (traceId: string): ServedFile => servedFile(rest, `${root}/traces/${traceId}/${FILE}`);
    return {
      put: (traceId, body) => file(traceId).put(body),
      mend: async (traceId, body) => {
        if (!(await file(traceId).isWhole())) await file(traceId).put(body);
      },
    };
  }
  const inS3 = /^s3:\/\/([^/]+)\/*(.*)$/.exec(location);
  if (inS3) {
    if (s3 === undefined) {
      const facts = { got: location, expected: 'an S3 client given to the MLflow client' };
      throw new PermanentError('MlflowS3ClientMissing', 'The spans of this experiment are kept in S3', facts);
    }
    const [, bucket = '', root = ''] = inS3;
    return {
      put: (traceId, body) => putToS3(s3, bucket, `${root ? `${root}/` : ''}traces/${traceId}/${FILE}`, body),
      // An object is written whole or not at all, and before its trace.
      mend: async () => undefined,
    };
  }
  throw new PermanentError(
    'MlflowArtifactStoreUnsupported',
    'The experiment’s artifacts are where nothing can be put',
    {
      got: location,
      expected: 'mlflow-artifacts:/… (a server that serves artifacts) or s3://…',
      where: `experiment "${experiment.name}" (id ${experiment.id})`,
    },
  );
}

/** @throws PermanentError `MlflowArtifactAccessDenied`, and those of the storage */
export async function putToS3(
  s3: S3Client,
  bucket: string,
  key: string,
  body: Uint8Array,
  contentType = 'application/json',
): Promise<void> {
  // Loaded when first needed: 35 MB of memory that writing by OTLP does without.
  const { PutObjectCommand } = await import('@aws-sdk/client-s3');
  try {
    await s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, ContentType: contentType }));
  } catch (error) {
    const { namedStorageError } = await import('../shared/storage-errors.ts');
    const named = namedStorageError(error, `s3://${bucket}/${key}`);
    if (named.name !== 'StorageAccessDenied') throw named;
    // S3 says which permission is missing, and whose: its own, or the key's where the bucket has one.
    const facts = {
      got: saidBy(error),
      expected: 's3:PutObject on it: set MLFLOW_ARTIFACT_BUCKET',
      where: `s3://${bucket}/${key}`,
    };
    throw new PermanentError('MlflowArtifactAccessDenied', 'MLflow’s artifact bucket denied access', facts, error);
  }
}
