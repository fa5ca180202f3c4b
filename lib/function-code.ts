/** The Lambdas' code, as the assets of a stack. */
import { join } from 'node:path';
import { Stack, Stage } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { bundleFunctions, LAMBDA } from './bundle-functions.ts';

/** Output folders of apps that have their bundles; an app is synthesized once in a process, its functions are many. */
const bundled = new Set<string>();

/**
 * @param folder the handler's folder under `lambda/`
 * @returns the folder's handler as `index.mjs`, its source as it is where the app wants no bundles. Where FUNCTION_BUNDLES
 *   names a folder, the bundles are there already
 */
export function functionCode(scope: Construct, folder: string): Code {
  if (!Stack.of(scope).bundlingRequired) return Code.fromAsset(join(LAMBDA, folder));
  const made = process.env.FUNCTION_BUNDLES;
  if (made) return Code.fromAsset(join(made, folder));
  const outdir = join(Stage.of(scope)?.outdir ?? 'cdk.out', 'functions');
  if (!bundled.has(outdir)) bundleFunctions(outdir);
  bundled.add(outdir);
  return Code.fromAsset(join(outdir, folder));
}
