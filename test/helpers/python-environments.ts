/**
 * Makes the Python environments of the integration tests before the first of them: how long downloads take is nobody's
 * to know, so no test's time limit may have them in it. And the functions' bundles, which the deployed stacks share.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { makeOwnFolder } from '../../local/machine/own-folder.ts';
import {
  defaultPythonEnvironment,
  MANAGED_MLFLOW_VERSION,
  mlflowEnvironment,
  sagemakerPluginEnvironment,
} from '../../local/python/python-presets.ts';
import { makeBundles } from '../../local/stack/deploy.ts';

/** A package index may cut a connection: what was fetched is kept in the installer's cache, so another try is short. */
const WAITS_MS = [5_000, 15_000];

/** Jest's `globalSetup`. */
export default async function makePythonEnvironments(): Promise<void> {
  const log = (line: string): void => console.info(line);
  const bundles = makeBundles({ directory: makeOwnFolder('bundles'), log });
  await Promise.all([
    bundles,
    patiently(() => defaultPythonEnvironment(log)),
    patiently(() => mlflowEnvironment(MANAGED_MLFLOW_VERSION, log)),
    patiently(() => sagemakerPluginEnvironment(log)),
  ]);
  process.env.FUNCTION_BUNDLES = await bundles;
}

async function patiently(make: () => Promise<unknown>): Promise<void> {
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
