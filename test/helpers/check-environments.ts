/** Python environments that only tests use. */
import { ensurePythonEnvironment, type Log, type PythonEnvironment } from '../../local/python/python-environment.ts';
import {
  AWS_CHECKS_ENVIRONMENT,
  CAPTURE_APPS_ENVIRONMENT,
  RAGAS_ENVIRONMENT,
  SAGEMAKER_PLUGIN_ENVIRONMENT,
  SCORERS_ENVIRONMENT,
} from '../../local/python/python-presets.ts';

export const sagemakerPluginEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...SAGEMAKER_PLUGIN_ENVIRONMENT, log });

export const awsChecksEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...AWS_CHECKS_ENVIRONMENT, log });

export const captureAppsEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...CAPTURE_APPS_ENVIRONMENT, log });

export const scorersEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...SCORERS_ENVIRONMENT, log });

export const ragasEnvironment = (log?: Log): Promise<PythonEnvironment> =>
  ensurePythonEnvironment({ ...RAGAS_ENVIRONMENT, log });
