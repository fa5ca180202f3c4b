/**
 * Creates the Python environments of the integration tests before they start, since the duration of downloads is
 * unpredictable and must not count toward a test's timeout. Also bundles the functions, which the deployed stacks share, and
 * unpacks the browser.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { makeOwnFolder } from '../../local/machine/own-folder.ts';
import {
  APP_MLFLOW_VERSIONS,
  lockedEnvironment,
  MANAGED_MLFLOW_VERSION,
  mlflowEnvironment,
} from '../../local/python/python-presets.ts';
import { makeBundles } from '../../local/stack/deploy.ts';
import { packageRuns, unpackChromium } from './chromium.ts';

/** A package index may drop a connection. The installer caches downloads, so a retry is short. */
const WAITS_MS = [5_000, 15_000];

/** Jest's `globalSetup`. */
export default async function makePythonEnvironments(
  _: unknown,
  { displayName }: { displayName: { name: string } },
): Promise<void> {
  const isSlow = displayName.name === 'slow';
  const versions = isSlow ? APP_MLFLOW_VERSIONS : [MANAGED_MLFLOW_VERSION];
  const names = ['default', 'sagemaker-mlflow', 'aws-checks', 'capture-apps', ...(isSlow ? ['scorers', 'ragas'] : [])];
  const log = (line: string): void => console.info(line);
  const bundles = makeBundles({ directory: makeOwnFolder('bundles'), log });
  await Promise.all([
    bundles,
    ...versions.map((version) => withRetries(() => mlflowEnvironment(version, log))),
    ...names.map((name) => withRetries(() => lockedEnvironment(name, log))),
    ...(packageRuns ? [unpackChromium()] : []),
  ]);
  process.env.FUNCTION_BUNDLES = await bundles;
}

export async function withRetries(make: () => Promise<unknown>): Promise<void> {
  for (const waitMs of WAITS_MS) {
    try {
      await make();
      return;
    } catch (error) {
      console.warn(`${(error as Error).message}\nTrying again in ${waitMs / 1000} s`);
      await sleep(waitMs);
    }
  }
  await make();
}
