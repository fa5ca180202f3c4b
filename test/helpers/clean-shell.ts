/**
 * Jest's `setupFiles`: removes variables of the user or the build server for AWS, MLflow and this project from the tests and
 * the commands that they start. Each test file has its own variables, so nothing has to be restored.
 */
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const NOT_OURS = [
  /^(AWS|CDK|MLFLOW|BEDROCK|JUDGE|SAGEMAKER|DATA_CAPTURE|EVALUATION|REPLAY|LAMBDA)_/,
  /^(STACK_PREFIX|ALARM_EMAIL|CSV_HEADER|FEATURE_NAMES|LOG_RETENTION_DAYS|MAX_FUNCTIONS|MAX_LINE_BYTES|SIZE|GITHUB_STEP_SUMMARY)$/,
];
const nowhere = join(tmpdir(), 'no-such-folder', 'file');
const { NO_PROXY, no_proxy = NO_PROXY } = process.env;
/** A proxy for packages must not receive requests to servers on this machine. */
const withoutProxy = [...(no_proxy ? [no_proxy] : []), '127.0.0.1', 'localhost'].join(',');

for (const name of Object.keys(process.env)) {
  if (NOT_OURS.some((pattern) => pattern.test(name))) delete process.env[name];
}
// Python keeps its compiled files: each process that imports MLflow would compile it again, which takes seconds.
delete process.env.PYTHONDONTWRITEBYTECODE;
Object.assign(process.env, {
  AWS_CONFIG_FILE: nowhere,
  AWS_SHARED_CREDENTIALS_FILE: nowhere,
  AWS_EC2_METADATA_DISABLED: 'true',
  // The CDK's validation rules take seconds to load. One test validates the template against them.
  CDK_VALIDATION: 'false',
  DOTENV_CONFIG_PATH: nowhere,
  // No test cuts the power, and MLflow's servers need not wait for the disk at each write.
  SQLITE_SYNCHRONOUS: 'OFF',
  NO_PROXY: withoutProxy,
  no_proxy: withoutProxy,
});
