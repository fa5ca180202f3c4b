/** AIPerf 0.13 in a separate Python environment, prepared to run without internet access. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  ensurePythonEnvironment,
  type Log,
  type PythonEnvironment,
  withBinOnPath,
} from '../../local/python/python-environment.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { Command } from './measure.ts';

export const AIPERF_VERSION = '0.13.0';
const JS_TIKTOKEN_VERSION = '1.0.21';
/** File name of the ranks of AIPerf's `builtin` tokenizer: the SHA-1 of the address it would download them from. */
const RANKS_FILE = 'fb374d419588a4632f3f557e76b4b70aebbca790';

export interface Aiperf {
  environment: PythonEnvironment;
  command(args: readonly string[], directory: string): Command;
}

/** Creates the environment (840 MB) and the tokenizer's file if they are missing. */
export async function aiperf(log: Log): Promise<Aiperf> {
  const environment = await ensurePythonEnvironment({ name: 'aiperf', packages: { aiperf: AIPERF_VERSION }, log });
  const ranks = await tokenizerFolder(log);
  return {
    environment,
    command: (args, directory) => ({
      command: join(environment.bin, 'aiperf'),
      args,
      cwd: directory,
      env: { ...withBinOnPath(environment), TIKTOKEN_CACHE_DIR: ranks, HOME: directory, HF_HUB_OFFLINE: '1' },
    }),
  };
}

/** Converts the ranks of o200k_base from the form of npm's js-tiktoken to that of tiktoken. */
async function tokenizerFolder(log: Log): Promise<string> {
  const folder = packagePath('.local', 'bench', 'tiktoken');
  const file = join(folder, RANKS_FILE);
  if (existsSync(file)) return folder;
  mkdirSync(folder, { recursive: true });
  log('fetching the tokenizer of the peer');
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', `js-tiktoken@${JS_TIKTOKEN_VERSION}`], {
    cwd: folder,
  });
  const source = readFileSync(join(folder, 'node_modules', 'js-tiktoken', 'dist', 'ranks', 'o200k_base.cjs'), 'utf8');
  const { bpe_ranks: text } = JSON.parse(source.slice(source.indexOf('{'), source.lastIndexOf('}') + 1)) as {
    bpe_ranks: string;
  };
  const lines: string[] = [];
  // A line consists of an exclamation mark, its first rank, and its tokens in base64.
  for (const row of text.split('\n')) {
    const [, first, ...tokens] = row.split(' ');
    tokens.forEach((token, i) => {
      lines.push(`${token} ${Number(first) + i}`);
    });
  }
  if (lines.length < 199_000) throw new Error(`o200k_base has ${lines.length} ranks; expected: 199,998`);
  writeFileSync(file, `${lines.join('\n')}\n`);
  return folder;
}

/** Returns the command that replays a directory of captures on their schedule. */
export const profileArgs = (captures: string, url: string, artifacts: string): string[] => [
  'profile',
  ...['--model', 'my-model', '--tokenizer', 'builtin', '--endpoint-type', 'chat'],
  ...['--url', url.replace(/^https?:\/\//, ''), '--input-file', captures],
  ...['--custom-dataset-type', 'sagemaker_data_capture', '--fixed-schedule', '--fixed-schedule-auto-offset'],
  ...['--artifact-dir', artifacts, '--ui', 'none'],
];
