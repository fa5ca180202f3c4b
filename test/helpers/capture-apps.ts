/** Applications that capture their calls, in both languages: processes of their own, which do what a test asks. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { defaultPythonEnvironment, lockedEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface AppCall {
  streamed?: boolean;
  /** In base64. */
  body: string;
  contentType?: string;
  inferenceId?: string;
  variant?: string;
  /** Default: `e`. */
  endpointName?: string;
  /** Pieces that the application reads. Default: all. */
  pieces?: number;
  /** Python: the body as a file. */
  file?: 'bytes' | 'own';
}

export interface AppSpec {
  endpoint: string;
  s3: string;
  /** Without captures. */
  bare?: boolean;
  options: {
    prefix?: string;
    calls?: 'streams' | 'all';
    sampling?: number;
    maxBodyBytes?: number;
    memoryBytes?: number;
    batchSeconds?: number;
    batchBytes?: number;
    spoolFolder?: string;
    spoolBytes?: number;
  };
  calls: AppCall[];
  concurrent?: boolean;
  /** Sets the clock of the process an hour back after this time. */
  clockBackAfterMs?: number;
  /** Python: ask again in a forked child. */
  fork?: boolean;
  /** Without it, the process ends as it is. */
  flushSeconds?: number;
}

export interface AppReply {
  reply: string;
  error?: string | null;
  pieceMs: number[];
  endMs: number;
}

export interface AppResult {
  replies: AppReply[];
  stats: { open: number; waiting: number; written: number; spooled: number; dropped: number } & {
    withoutContent: number;
    lastError?: string | null;
  };
  rssBytes: number;
  /** Lines that a forked child printed. */
  printed: string[];
  /** Time of the whole process. */
  processMs: number;
}

/** The async one is Python too: the lines do not tell them apart. */
export const LANGUAGES = ['node', 'python', 'aiobotocore'] as const;
export type Language = (typeof LANGUAGES)[number];

const MAX_OUTPUT = 512 * 1024 * 1024;

/** @param python in place of the environment's */
export async function runApp(language: Language, spec: AppSpec, python?: string): Promise<AppResult> {
  const file = join(temporaryFolder('capture-app-'), 'spec.json');
  const isAsync = language === 'aiobotocore';
  writeFileSync(file, JSON.stringify({ ...spec, async: isAsync }));
  const script = (name: string): string => packagePath('test', 'helpers', name);
  const [command, args] =
    language === 'node'
      ? [process.execPath, ['--expose-gc', '--import', packagePath('bin', 'ready.js'), script('capture-app.ts'), file]]
      : [
          python ?? (await (isAsync ? lockedEnvironment('capture-apps') : defaultPythonEnvironment())).python,
          [script('capture_app.py'), file],
        ];
  const started = performance.now();
  const { stdout } = await promisify(execFile)(command, args, { maxBuffer: MAX_OUTPUT });
  const printed = stdout.trim().split('\n');
  return { ...JSON.parse(printed.pop() ?? ''), printed, processMs: performance.now() - started } as AppResult;
}
