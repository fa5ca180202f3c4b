/** The Lambdas' code: every handler bundled to one file, all of them in one call of esbuild. */
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Stack, Stage } from 'aws-cdk-lib';
import { Code } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { buildSync } from 'esbuild';

const LAMBDA = join(import.meta.dirname, '..', 'lambda');
const HANDLER = 'handler.ts';

/** Output folders of apps that have their bundles; an app is synthesized once in a process, its functions are many. */
const bundled = new Set<string>();

/**
 * @param folder the handler's folder under `lambda/`
 * @returns the folder's handler as `index.mjs`, its source as it is where the app wants no bundles
 */
export function functionCode(scope: Construct, folder: string): Code {
  if (!Stack.of(scope).bundlingRequired) return Code.fromAsset(join(LAMBDA, folder));
  const outdir = join(Stage.of(scope)?.outdir ?? 'cdk.out', 'functions');
  if (!bundled.has(outdir)) bundleFunctions(outdir);
  bundled.add(outdir);
  return Code.fromAsset(join(outdir, folder));
}

/** Writes every handler's bundle to `<outdir>/<its folder under lambda>/index.mjs`. */
export function bundleFunctions(outdir: string): void {
  const handlers = readdirSync(LAMBDA, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith(HANDLER));
  buildSync({
    entryPoints: handlers.map((file) => ({ in: join(LAMBDA, file), out: join(dirname(file), 'index') })),
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    minify: true,
    keepNames: true,
    // The bundles' sizes are looked after by a test.
    logLevel: 'warning',
    mainFields: ['module', 'main'],
    // CommonJS packages inside an ES module still call require.
    banner: {
      js: "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
    },
  });
}
