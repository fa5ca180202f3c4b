/** The two sides of the benchmark: processes in Node and Python. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';

export interface SideOptions {
  endpoint: string;
  s3: string;
  requests: number;
  workers: number;
  /** Time between captured requests with a body of 1 MB, which are not measured. 0: none. */
  largeEveryMs: number;
  /** The clients that are used by turns: `bare`, `again` (also bare) and `captured`. */
  series: string[];
}

interface SideFigures {
  /** Milliseconds to the first byte, by series. */
  times: Record<string, number[]>;
  failed: number;
  peakBytes: number;
}

export const LANGUAGES = ['node', 'python'] as const;
const MAX_OUTPUT = 64 * 1024 * 1024;

export async function side(language: (typeof LANGUAGES)[number], options: SideOptions): Promise<SideFigures> {
  const script = (name: string): string => packagePath('bench', 'capture-client-support', name);
  const [command, args] =
    language === 'node'
      ? [process.execPath, ['--import', packagePath('bin', 'ready.js'), script('side.ts')]]
      : [(await defaultPythonEnvironment()).python, [script('side.py')]];
  const { stdout } = await promisify(execFile)(command, [...args, JSON.stringify(options)], { maxBuffer: MAX_OUTPUT });
  return JSON.parse(stdout) as SideFigures;
}
