/** Python environments that only tests use. */
import { join } from 'node:path';
import { ensurePythonEnvironment, type Log, type PythonEnvironment } from '../../local/python/python-environment.ts';
import {
  AWS_CHECKS_ENVIRONMENT,
  OTHER_CHECKS,
  SAGEMAKER_PLUGIN_ENVIRONMENT,
} from '../../local/python/python-presets.ts';

export const sagemakerPluginEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...SAGEMAKER_PLUGIN_ENVIRONMENT, log });

export async function awsChecksEnvironment(log?: Log): Promise<PythonEnvironment> {
  const bin = process.env[OTHER_CHECKS];
  return bin ? { bin, python: join(bin, 'python') } : ensurePythonEnvironment({ ...AWS_CHECKS_ENVIRONMENT, log });
}
