/** Permission to reach MLflow, by the kind of tracking URI. */
import type { Stack } from 'aws-cdk-lib';
import { type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Settings } from './settings.ts';

export function mlflowStatements(stack: Stack, settings: Settings): PolicyStatement[] {
  const { MLFLOW_TRACKING_URI: uri, MLFLOW_SECRET_ARN: secret, MLFLOW_ARTIFACT_BUCKET: artifacts } = settings;
  const statements: PolicyStatement[] = [];
  if (uri.includes(':mlflow-tracking-server/')) {
    // The service has an action for each REST call and adds new ones with MLflow's versions; the ARN is the bound.
    statements.push(new PolicyStatement({ actions: ['sagemaker-mlflow:*'], resources: [uri] }));
  } else if (uri.includes(':mlflow-app/')) {
    statements.push(new PolicyStatement({ actions: ['sagemaker:CallMlflowAppApi'], resources: [uri] }));
  }
  if (secret !== undefined) {
    statements.push(new PolicyStatement({ actions: ['secretsmanager:GetSecretValue'], resources: [secret] }));
  }
  if (artifacts !== undefined) {
    const path = artifacts.replace(/^s3:\/\//, '').replace(/\/+$/, '');
    const resources = [`arn:${stack.partition}:s3:::${path}/*`];
    statements.push(new PolicyStatement({ actions: ['s3:PutObject', 's3:GetObject'], resources }));
  }
  return statements;
}

export function grantMlflow(stack: Stack, grantee: IGrantable, settings: Settings): void {
  for (const statement of mlflowStatements(stack, settings)) grantee.grantPrincipal.addToPrincipalPolicy(statement);
}
