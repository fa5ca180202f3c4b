/**
 * `npm run build`: makes what the package has instead of sources, in `dist/`: the command line and the CDK app as plain
 * JavaScript for Node 20, the functions as zips, and the licenses of what is in them.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';
import { zipSync } from 'fflate';
import { bundleFunctions, REQUIRE } from '../../lib/bundle-functions.ts';
import { projectPath } from '../project-root.ts';
import { thirdPartyNotices } from './notices.ts';

const DIST = projectPath('dist');

/** Bundles the programs. Code that several commands share is in chunks, so that a command loads only what it needs. */
async function buildPrograms(): Promise<string[]> {
  const { metafile } = await build({
    absWorkingDir: projectPath(),
    entryPoints: ['bin/inference-monitor.ts', 'bin/app.ts'],
    outdir: DIST,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    // Names stay as they are: an error's stack trace should be readable.
    minifyWhitespace: true,
    minifySyntax: true,
    mainFields: ['module', 'main'],
    // Installed only where the stack is deployed from.
    external: ['aws-cdk-lib', 'constructs'],
    metafile: true,
    logLevel: 'warning',
    banner: { js: REQUIRE },
  });
  return Object.keys(metafile.inputs);
}

/** In the fields of a zip, which have no time zone. */
const SAME_TIME = new Date(1980, 0, 1);
/** A regular file that everybody may read, as on Unix: Lambda refuses a file that it may not. */
const READABLE = { os: 3, attrs: 0o100644 << 16 };

/** Zips the functions' bundles. The same sources give the same bytes, so that the CDK does not deploy them again. */
function zipFunctions(): string[] {
  const bundles = mkdtempSync(join(tmpdir(), 'functions-'));
  try {
    const { folders, inputs } = bundleFunctions(bundles);
    mkdirSync(join(DIST, 'functions'), { recursive: true });
    for (const folder of folders) {
      const code = readFileSync(join(bundles, folder, 'index.mjs'));
      const zip = zipSync({ 'index.mjs': [code, { ...READABLE, level: 9, mtime: SAME_TIME }] });
      writeFileSync(join(DIST, 'functions', `${folder}.zip`), zip);
    }
    return inputs;
  } finally {
    rmSync(bundles, { recursive: true });
  }
}

rmSync(DIST, { recursive: true, force: true });
const inputs = [...(await buildPrograms()), ...zipFunctions()];
writeFileSync(join(DIST, 'THIRD-PARTY-NOTICES'), thirdPartyNotices(inputs));
