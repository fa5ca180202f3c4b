/** Bundles the code of the Lambdas: each handler into one file, all in one esbuild call. */
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { buildSync } from 'esbuild';

export const LAMBDA = join(import.meta.dirname, '..', 'lambda');
const HANDLER = 'handler.ts';

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
    // A test checks the sizes of the bundles.
    logLevel: 'warning',
    mainFields: ['module', 'main'],
    // CommonJS packages in an ES module still call require.
    banner: {
      js: "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);",
    },
  });
}
