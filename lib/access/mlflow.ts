/** Permission to call MLflow, by the kind of tracking URI. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { s3Place } from '../../src/core/settings/kinds.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { allow, escapeIamPattern, grantKey, grantSecret, inAccount } from './allow.ts';

/** Grants calls to MLflow's API. */
export function grantMlflow(role: Role, settings: Settings): void {
  const { MLFLOW_TRACKING_URI: uri } = settings;
  if (uri.startsWith('arn:')) {
    allow(role, { actions: ['sagemaker:CallMlflowAppApi'], resources: [uri] });
  } else {
    // A managed MLflow needs no secret, since the function's role signs the calls.
    grantSecret(role, settings.MLFLOW_SECRET_ARN);
  }
}

/** Grants writing the spans of traces and the files of runs to the bucket of MLflow's artifacts, if it is set. */
export function grantArtifacts(role: Role, settings: Settings): void {
  const place = s3Place(settings.MLFLOW_ARTIFACT_BUCKET);
  if (place.bucket === '') return;
  const { partition, account } = Stack.of(role);
  allow(role, {
    actions: ['s3:PutObject'],
    resources: [`arn:${partition}:s3:::${place.bucket}/${escapeIamPattern(place.prefix)}*`],
    conditions: inAccount(place.account ?? account),
    why: 'MLflow stores spans and files under the id of the experiment and of the trace or run.',
  });
  grantKey(role, settings.MLFLOW_ARTIFACT_KMS_KEY_ARN, 's3', 'write');
}
