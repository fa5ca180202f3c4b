/** The code of the Lambdas as assets of a stack. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Stack, Stage } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { packagePath } from '../src/core/process/package-folder.ts';
import { bundleFunctions, LAMBDA } from './bundle-functions.ts';

/** The key of a function in the context of a stack that has the code elsewhere: from the handler's folder to the code. */
export const FUNCTION_CODE = 'sagemaker-inference-monitor:code';

/** Output folders that already contain the bundles, so that the functions of an app are bundled once. */
const bundled = new Set<string>();

/**
 * Returns the handler's bundle, `index.mjs`, or its source if the app skips bundling. If FUNCTION_BUNDLES names a folder,
 * the bundles are taken from there. An installed package has zips instead of sources.
 *
 * @param folder the handler's folder under `lambda/`
 */
export function functionCode(scope: Construct, folder: string): Code {
  const elsewhere = scope.node.tryGetContext(FUNCTION_CODE) as ((folder: string) => Code) | undefined;
  if (elsewhere) return elsewhere(folder);
  if (!existsSync(LAMBDA)) return Code.fromAsset(packagePath('dist', 'functions', `${folder}.zip`));
  if (!Stack.of(scope).bundlingRequired) return Code.fromAsset(join(LAMBDA, folder));
  const made = process.env.FUNCTION_BUNDLES;
  if (made) return Code.fromAsset(join(made, folder));
  const outdir = join(Stage.of(scope)?.outdir ?? 'cdk.out', 'functions');
  if (!bundled.has(outdir)) bundleFunctions(outdir);
  bundled.add(outdir);
  return Code.fromAsset(join(outdir, folder));
}
