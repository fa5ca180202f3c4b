/** Permission to reach MLflow, by the kind of tracking URI. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../../src/settings/schema.ts';
import { allow } from './allow.ts';
import { escapeIamPattern } from './iam-pattern.ts';

/** To call MLflow's API. */
export function grantMlflow(role: Role, { MLFLOW_TRACKING_URI: uri, MLFLOW_SECRET_ARN: secret }: Settings): void {
  if (uri.includes(':mlflow-tracking-server/')) {
    allow(role, {
      actions: ['sagemaker-mlflow:*'],
      resources: [uri],
      why: 'The service has an action for each REST call, and new ones with each version of MLflow; the tracking server is the bound.',
    });
  } else if (uri.includes(':mlflow-app/')) {
    allow(role, { actions: ['sagemaker:CallMlflowAppApi'], resources: [uri] });
  } else if (secret !== undefined) {
    // A managed MLflow needs no secret: it is called with the function's own role.
    allow(role, { actions: ['secretsmanager:GetSecretValue'], resources: [secret] });
  }
}

/** To put a trace's spans, and the files of a run, where MLflow keeps artifacts, if that is a bucket. */
export function grantArtifacts(role: Role, { MLFLOW_ARTIFACT_BUCKET: artifacts }: Settings): void {
  if (artifacts === undefined) return;
  const path = escapeIamPattern(artifacts.replace(/^s3:\/\//, '').replace(/\/+$/, ''));
  allow(role, {
    actions: ['s3:PutObject'],
    resources: [`arn:${Stack.of(role).partition}:s3:::${path}/*`],
    why: 'MLflow keeps spans and files under the number of the experiment and the id of the trace or of the run.',
  });
}
