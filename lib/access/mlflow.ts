/** Permission to call MLflow, by the kind of tracking URI. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../../src/settings/schema.ts';
import { allow } from './allow.ts';
import { escapeIamPattern } from './iam-pattern.ts';

/** Grants calls to MLflow's API. */
export function grantMlflow(role: Role, { MLFLOW_TRACKING_URI: uri, MLFLOW_SECRET_ARN: secret }: Settings): void {
  if (uri.includes(':mlflow-tracking-server/')) {
    allow(role, {
      actions: ['sagemaker-mlflow:*'],
      resources: [uri],
      why: 'The service has an action for each REST call and adds new ones with each version of MLflow; the resource is one tracking server.',
    });
  } else if (uri.includes(':mlflow-app/')) {
    allow(role, { actions: ['sagemaker:CallMlflowAppApi'], resources: [uri] });
  } else if (secret !== undefined) {
    // A managed MLflow needs no secret, since the function's role signs the calls.
    allow(role, { actions: ['secretsmanager:GetSecretValue'], resources: [secret] });
  }
}

/** Grants writing the spans of traces and the files of runs to the bucket of MLflow's artifacts, if there is one. */
export function grantArtifacts(role: Role, { MLFLOW_ARTIFACT_BUCKET: artifacts }: Settings): void {
  if (artifacts === undefined) return;
  const path = escapeIamPattern(artifacts.replace(/^s3:\/\//, '').replace(/\/+$/, ''));
  allow(role, {
    actions: ['s3:PutObject'],
    resources: [`arn:${Stack.of(role).partition}:s3:::${path}/*`],
    why: 'MLflow stores spans and files under the id of the experiment and of the trace or run.',
  });
}
