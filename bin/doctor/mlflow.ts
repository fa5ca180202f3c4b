/** Checks that MLflow can be reached, and stores traces as they are written. */
import { mlflowOf } from '../../src/mlflow/connect.ts';
import type { CheckedSettings } from '../../src/settings/schema.ts';
import { toNamedError } from '../../src/shared/errors.ts';
import { type Finding, finding } from './finding.ts';

/** A person waits, and a private address does not answer from here. */
const QUICK = { timeoutMs: 5_000, retry: { attempts: 2 } };

export async function checkMlflow(settings: Partial<CheckedSettings>): Promise<Finding[]> {
  if (settings.MLFLOW_TRACKING_URI === undefined) return [];
  const { MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN } = process.env;
  const login = { MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD, MLFLOW_TRACKING_TOKEN };
  const client = mlflowOf({ ...settings, ...login }, undefined, QUICK);
  try {
    const { version } = await client.capabilities();
    const found = version === undefined ? 'It does not tell its version, and is used like 3.2.' : `Version ${version}.`;
    return [finding('ok', 'mlflow', `${found} ${client.target.baseUrl.origin} answers.`)];
  } catch (error) {
    const { name, message } = toNamedError(error);
    if (name === 'MlflowTooOld') return [finding('error', 'mlflow', `${message}: set another MLFLOW_TRACKING_URI.`)];
    const access =
      name === 'MlflowAccessDenied'
        ? 'check your own login; the functions have theirs'
        : 'the functions may reach it nevertheless, for example in a VPC';
    return [finding('warning', 'mlflow', `It could not be asked from here (${name}: ${message}): ${access}.`)];
  } finally {
    client.close();
  }
}
