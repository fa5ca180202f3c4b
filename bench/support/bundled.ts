/** Runs a program of a benchmark in a process of its own. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { packagePath } from '../../src/core/process/package-folder.ts';

/**
 * Bundles the program into one file, as functions and the command line are: to compile TypeScript takes memory too.
 *
 * @param program - below `bench/`
 * @returns the JSON that it prints as its last line
 */
export async function runBundled<T>(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  try {
    const file = join(folder, 'side.mjs');
    await build({
      ...{ entryPoints: [packagePath('bench', program)], outfile: file },
      ...{ bundle: true, platform: 'node', format: 'esm' },
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
    const { stdout } = await promisify(execFile)(process.execPath, [file, ...args], {
      env: { ...process.env, ...env },
    });
    return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as T;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
