/**
 * `npm run build`: makes what the package has instead of sources, in `dist/`: the command line and the CDK app as plain
 * JavaScript for Node 20, the functions as zips, and the licenses of what is in them.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BuildOptions, build } from 'esbuild';
import { REQUIRE } from '../../lib/bundle-functions.ts';
import { projectPath } from '../../local/project-root.ts';
import { thirdPartyNotices } from './notices.ts';
import { writeTypes } from './types.ts';
import { withBundles, zipBundles } from './zips.ts';

const DIST = projectPath('dist');

const CONSTRUCT = 'lib/inference-monitor.ts';

const COMMON = {
  absWorkingDir: projectPath(),
  outdir: DIST,
  bundle: true,
  platform: 'node',
  target: 'node20',
  // Names stay as they are: an error's stack trace should be readable.
  minifyWhitespace: true,
  minifySyntax: true,
  mainFields: ['module', 'main'],
  // Installed only where the stack is deployed from.
  external: ['aws-cdk-lib', 'constructs'],
  metafile: true,
  logLevel: 'warning',
} satisfies BuildOptions;

/**
 * Bundles the programs, and the construct as an ES module. Code that several commands share is in chunks, so that a command loads
 * only what it needs.
 */
async function buildPrograms(): Promise<string[]> {
  const { metafile } = await build({
    ...COMMON,
    entryPoints: { 'inference-monitor': 'bin/inference-monitor.ts', app: 'bin/app.ts', index: CONSTRUCT },
    chunkNames: 'chunks/[name]-[hash]',
    splitting: true,
    format: 'esm',
    banner: { js: REQUIRE },
  });
  return Object.keys(metafile.inputs);
}

/** Bundles the construct for apps that are CommonJS, as those of `cdk init`. */
async function buildCommonJs(): Promise<void> {
  await build({
    ...COMMON,
    entryPoints: { index: CONSTRUCT },
    format: 'cjs',
    outExtension: { '.js': '.cjs' },
    define: { 'import.meta.dirname': '__dirname', 'import.meta.url': '__filename' },
  });
}

rmSync(DIST, { recursive: true, force: true });
await Promise.all([buildCommonJs(), writeTypes(join(DIST, 'types'))]);
const zipped = withBundles((bundles, inputs) => {
  zipBundles(bundles, join(DIST, 'functions'));
  return inputs;
});
const inputs = [...(await buildPrograms()), ...zipped];
writeFileSync(join(DIST, 'THIRD-PARTY-NOTICES'), thirdPartyNotices(inputs));
