/** Bundles the code of the Lambdas: each handler into one file, and a process of its own into another, all in one esbuild call. */
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { packagePath } from '../src/core/process/package-folder.ts';

/** Folder of the sources. An installed package has no sources: see `functionCode`. */
export const LAMBDA = packagePath('lambda');
const HANDLER = 'handler.ts';

/** The process for heavy captures, next to the functions that read captures. */
const HEAVY_PROCESS = packagePath('src', 'monitoring', 'chunk', 'heavy-process.ts');
const READERS = ['plan-captures', 'log-traces', 'evaluate-traces'];

/**
 * Writes every handler's bundle to `<outdir>/<its folder under lambda>/index.mjs`, with further files that it runs.
 *
 * @returns the handlers' folders, and the files that went into the bundles, relative to the project
 */
export function bundleFunctions(outdir: string): { folders: string[]; inputs: string[] } {
  // Loaded here, because it is needed, and installed, only where the sources are.
  const { buildSync } = createRequire(import.meta.url)('esbuild') as typeof import('esbuild');
  const handlers = readdirSync(LAMBDA, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith(HANDLER));
  const { metafile } = buildSync({
    absWorkingDir: packagePath(),
    entryPoints: [
      ...handlers.map((file) => ({ in: join(LAMBDA, file), out: join(dirname(file), 'index') })),
      ...READERS.map((folder) => ({ in: HEAVY_PROCESS, out: join(folder, 'heavy-process') })),
    ],
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    minify: true,
    // Keep letters of other scripts unescaped: escaping would triple their bytes.
    charset: 'utf8',
    keepNames: true,
    metafile: true,
    // A test checks the sizes of the bundles.
    logLevel: 'warning',
    mainFields: ['module', 'main'],
    banner: { js: REQUIRE },
  });
  return { folders: handlers.map(dirname), inputs: Object.keys(metafile.inputs) };
}

/** CommonJS packages in an ES module still call require. */
export const REQUIRE =
  "import{createRequire as __createRequire}from'node:module';const require=__createRequire(import.meta.url);";
