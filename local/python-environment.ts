/** Python environments with pinned packages, made on demand under `.venvs/` of the project. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { withFileLock } from './file-lock.ts';
import { projectPath } from './project-root.ts';

export interface PythonEnvironmentSpec {
  /** First part of the folder's name. */
  name: string;
  /** Exact versions by package. */
  packages: Record<string, string>;
  /**
   * A requirements file inside the project that pins what the packages need as well. Without it the newest that fits is
   * installed, and an older MLflow does not run with the newest of what it needs.
   */
  lockFile?: string;
}

export interface PythonEnvironment {
  /** Folder of the executables; put it first on the PATH of what is started from it. */
  bin: string;
  python: string;
}

export type Log = (line: string) => void;

/** Raised from hand to hand when the way environments are made changes, so that old ones are made anew. */
const LAYOUT = 1;

/** Pythons tried in turn where `uv` is not installed: those MLflow 3 has wheels for. */
const PYTHON_NAMES = ['python3', 'python3.12', 'python3.13', 'python3.11', 'python3.10'];
const OLDEST_PYTHON = [3, 10];
const NEWEST_PYTHON = [3, 13];
const UV_PYTHON_RANGE = '>=3.10,<3.14';

/** Last lines of a failed command's output that the error shows. */
const TAIL_LINES = 15;

/** Written last: a folder without it is half made. */
const COMPLETE_MARK = '.complete';

/**
 * Gives the environment of these pins, made if it is missing or half made. Processes that want the same one at the
 * same time wait for the first.
 *
 * @throws Error that says what to do when no usable Python is found or an installation fails
 */
export async function ensurePythonEnvironment(
  spec: PythonEnvironmentSpec & { log?: Log; signal?: AbortSignal },
): Promise<PythonEnvironment> {
  const log = spec.log ?? (() => {});
  const pins = Object.entries(spec.packages)
    .map(([name, version]) => `${name}==${version}`)
    .sort();
  const lockFile = spec.lockFile && projectPath(spec.lockFile);
  const hash = createHash('sha256')
    .update(JSON.stringify([LAYOUT, ...pins, lockFile ? readFileSync(lockFile, 'utf8') : '']))
    .digest('hex')
    .slice(0, 12);
  const folder = projectPath('.venvs', `${spec.name}-${hash}`);
  const environment = { bin: join(folder, 'bin'), python: join(folder, 'bin', 'python') };
  const isComplete = () => existsSync(join(folder, COMPLETE_MARK)) && existsSync(environment.python);
  if (isComplete()) return environment;

  mkdirSync(projectPath('.venvs'), { recursive: true });
  await withFileLock(
    `${folder}.lock`,
    async () => {
      if (isComplete()) return;
      rmSync(folder, { recursive: true, force: true });
      const started = Date.now();
      log(`Making the Python environment "${spec.name}" (${pins.join(', ')}) in ${folder}`);
      await make(folder, lockFile ? [...pins, '--requirement', lockFile] : pins, log, spec.signal);
      writeFileSync(join(folder, COMPLETE_MARK), `${pins.join('\n')}\n`);
      log(`Made the Python environment "${spec.name}" in ${Math.round((Date.now() - started) / 1000)} s`);
    },
    () => log(`Waiting for another process that is making the Python environment "${spec.name}"`),
    spec.signal,
  );
  return environment;
}

async function make(folder: string, requirements: string[], log: Log, signal?: AbortSignal): Promise<void> {
  const run = (command: string, args: string[]) => runToEnd(command, args, signal);
  const python = join(folder, 'bin', 'python');
  if (await succeeds('uv', ['--version'])) {
    await run('uv', ['venv', '--quiet', '--python', UV_PYTHON_RANGE, folder]);
    await run('uv', ['pip', 'install', '--quiet', '--python', python, ...requirements]);
    return;
  }
  log('uv is not installed; using venv and pip, which takes about a minute longer');
  await run(await findPython(), ['-m', 'venv', folder]);
  await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input', ...requirements]);
}

/** @throws Error naming every Python that was looked at and why it does not do */
async function findPython(): Promise<string> {
  const seen: string[] = [];
  for (const name of PYTHON_NAMES) {
    // ensurepip is what Debian and Ubuntu leave out of their Python until python3-venv is installed.
    const probe = await output(name, [
      '-c',
      'import sys, importlib.util as u; print(*sys.version_info[:2], u.find_spec("venv") is not None and u.find_spec("ensurepip") is not None)',
    ]);
    if (probe === undefined) continue;
    const [major, minor, complete] = probe.trim().split(' ');
    const version = [Number(major), Number(minor)];
    if (compare(version, OLDEST_PYTHON) < 0 || compare(version, NEWEST_PYTHON) > 0) {
      seen.push(`${name} is ${version.join('.')}`);
    } else if (complete !== 'True') {
      seen.push(
        `${name} (${version.join('.')}) has no venv module: install it (Debian, Ubuntu: apt install python3-venv)`,
      );
    } else return name;
  }
  throw new Error(
    [
      'No usable Python was found',
      `got: ${seen.length > 0 ? seen.join('; ') : 'no python3 on the PATH'}`,
      `expected: uv (https://docs.astral.sh/uv/) or Python ${OLDEST_PYTHON.join('.')} to ${NEWEST_PYTHON.join('.')} with venv on the PATH`,
      'MLflow and the AWS emulator are Python programs; install either and run the command again',
    ].join('; '),
  );
}

function compare(a: number[], b: number[]): number {
  return (a[0] ?? 0) - (b[0] ?? 0) || (a[1] ?? 0) - (b[1] ?? 0);
}

function start(command: string, args: string[], signal?: AbortSignal): ChildProcess {
  // A VIRTUAL_ENV or PYTHONPATH of the caller's shell must not leak into the new environment.
  const { VIRTUAL_ENV: _venv, PYTHONPATH: _path, PYTHONHOME: _home, ...env } = process.env;
  return spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...env, PIP_NO_INPUT: '1' }, signal });
}

/** Standard output of a command that ends well, else `undefined`. */
function output(command: string, args: string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = start(command, args);
    let text = '';
    child.stdout?.on('data', (data) => {
      text += data;
    });
    child.stderr?.resume();
    child.on('error', () => resolve(undefined));
    child.on('close', (code) => resolve(code === 0 ? text : undefined));
  });
}

const succeeds = async (command: string, args: string[]) => (await output(command, args)) !== undefined;

function runToEnd(command: string, args: string[], signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = start(command, args, signal);
    const lines: string[] = [];
    const keep = (data: Buffer) => {
      lines.push(...data.toString().split('\n').filter(Boolean));
      lines.splice(0, lines.length - TAIL_LINES);
    };
    child.stdout?.on('data', keep);
    child.stderr?.on('data', keep);
    child.on('error', (error) => reject(new Error(`${command} could not be started`, { cause: error })));
    child.on('close', (code, signal) => {
      if (code === 0) return resolve();
      reject(
        new Error(
          [
            `The Python environment could not be made: ${command} ${args.join(' ')}`,
            `got: ${signal ?? `exit code ${code}`}`,
            'expected: exit code 0. Check the connection to the package index (PIP_INDEX_URL, UV_INDEX_URL, proxies) and free disk space (1 GB), then run the command again',
            `last output:\n${lines.join('\n')}`,
          ].join('; '),
        ),
      );
    });
  });
}

/** `bin` first on the PATH, for the environment of a child process. */
export const withBinOnPath = (
  environment: PythonEnvironment,
  env: NodeJS.ProcessEnv = process.env,
): NodeJS.ProcessEnv => ({
  ...env,
  PATH: `${environment.bin}${delimiter}${env.PATH ?? ''}`,
});
