/** Creates Python environments with pinned packages on demand, under `.venvs/` of the project. */
import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { withFacts } from '../../src/core/errors/errors.ts';
import { keptPath, packagePath } from '../../src/core/process/package-folder.ts';
import { withFileLock } from '../machine/file-lock.ts';
import { runGuarded } from '../machine/guarded-process.ts';
import SETTINGS from './uv-settings.json' with { type: 'json' };

export interface PythonEnvironmentSpec {
  /** First part of the folder's name. */
  name: string;
  /** Exact versions by package. */
  packages: Record<string, string>;
  /**
   * A requirements file inside the project that also pins the dependencies. Without it the newest dependencies are
   * installed, which older MLflow versions do not support.
   */
  lockFile?: string;
}

export interface PythonEnvironment {
  /** Folder of the executables. Put it first on the PATH of their processes. */
  bin: string;
  python: string;
}

export type Log = (line: string) => void;

/** Increase this when the way environments are created changes, so that existing environments are rebuilt. */
const LAYOUT = 1;

/** The uv that installs the packages. */
const UV_VERSION = '0.13.9';

/** Names tried one after the other: the Pythons that MLflow 3 has wheels for. */
const PYTHON_NAMES = ['python3', 'python3.12', 'python3.13', 'python3.11', 'python3.10'];

/** Prints why this Python is not usable. Debian and Ubuntu have no ensurepip until python3-venv is installed. */
const FAULT = `
import sys, importlib.util as found
if not (3, 10) <= sys.version_info < (3, 14): print("is %d.%d" % sys.version_info[:2])
elif not (found.find_spec("venv") and found.find_spec("ensurepip")):
    print("has no venv module: install it (Debian, Ubuntu: apt install python3-venv)")
`;

/** Half a gigabyte takes long over a slow connection. */
const INSTALL_LIMIT_MS = 3_600_000;

/** Written last, so a folder without it is incomplete. */
const COMPLETE_MARK = '.complete';

interface Creation {
  log?: Log;
  signal?: AbortSignal;
}

/**
 * Returns the environment with these pins, and creates it if it is missing or incomplete. Processes that need the same
 * one concurrently wait for the first.
 *
 * @throws Error that names the remedy if no usable Python is found or an installation fails
 */
export const ensurePythonEnvironment = (spec: PythonEnvironmentSpec & Creation): Promise<PythonEnvironment> =>
  ensure(spec, makeWithUv);

/** Returns an environment with uv, which pip installs from the package index: it takes a sixth of pip's time. */
export const uvEnvironment = (creation: Creation = {}): Promise<PythonEnvironment> =>
  ensure({ name: 'uv', packages: { uv: UV_VERSION }, ...creation }, makeWithPip);

async function ensure(spec: PythonEnvironmentSpec & Creation, make: typeof makeWithUv): Promise<PythonEnvironment> {
  const { signal, log = () => {} } = spec;
  const pins = Object.entries(spec.packages)
    .map(([name, version]) => `${name}==${version}`)
    .sort();
  const lockFile = spec.lockFile && packagePath(spec.lockFile);
  const content = JSON.stringify([LAYOUT, ...pins, lockFile ? readFileSync(lockFile, 'utf8') : '']);
  const folder = keptPath('.venvs', `${spec.name}-${hash('sha256', content).slice(0, 12)}`);
  const environment = { bin: join(folder, 'bin'), python: join(folder, 'bin', 'python') };
  const isComplete = () => existsSync(join(folder, COMPLETE_MARK)) && existsSync(environment.python);
  if (isComplete()) return environment;

  mkdirSync(keptPath('.venvs'), { recursive: true });
  await withFileLock(
    `${folder}.lock`,
    async () => {
      if (isComplete()) return;
      rmSync(folder, { recursive: true, force: true });
      const started = Date.now();
      log(`Creating the Python environment "${spec.name}" (${pins.join(', ')}) in ${folder}`);
      await make(folder, lockFile ? [...pins, '--requirement', lockFile] : pins, { log, signal });
      writeFileSync(join(folder, COMPLETE_MARK), `${pins.join('\n')}\n`);
      log(`Created the Python environment "${spec.name}" in ${Math.round((Date.now() - started) / 1000)} s`);
    },
    () => log(`Waiting for another process that is creating the Python environment "${spec.name}"`),
    signal,
  );
  return environment;
}

async function makeWithUv(folder: string, requirements: string[], creation: Creation): Promise<void> {
  const { signal } = creation;
  const { bin, python: withPip } = await uvEnvironment(creation);
  const uv = join(bin, 'uv');
  const { env, options } = uvOptions(await output(withPip, ['-m', 'pip', 'config', 'list']));
  await runToEnd(folder, uv, ['venv', '--quiet', '--python', await findPython(), folder], signal, env);
  const into = ['--quiet', '--python', join(folder, 'bin', 'python'), ...requirements];
  await runToEnd(folder, uv, ['pip', 'install', ...options, ...into], signal, env);
}

async function makeWithPip(folder: string, requirements: string[], { signal }: Creation): Promise<void> {
  await runToEnd(folder, await findPython(), ['-m', 'venv', folder], signal);
  const args = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input', ...requirements];
  await runToEnd(folder, join(folder, 'bin', 'python'), args, signal);
}

/** Settings of pip with uv's variable for each, and the separator of several values. */
const UV_SETTINGS = SETTINGS as [string, string, string][];

/**
 * Translates pip's settings for uv, which reads neither pip's files nor its variables. A package index and certificates that
 * are configured for pip then also work with uv.
 *
 * @param list the output of `pip config list`, with lines such as `global.index-url='https://…'`
 */
function uvOptions(list = ''): { options: string[]; env: Record<string, string> } {
  const settings = new Map<string, string>();
  for (const line of list.split('\n')) {
    const [key = '', ...value] = line.split('=');
    settings.set(key, value.join('=').slice(1, -1));
  }
  const setting = (name: string) =>
    settings.get(`:env:.${name}`) ?? settings.get(`install.${name}`) ?? settings.get(`global.${name}`) ?? '';
  const { REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE = REQUESTS_CA_BUNDLE ?? CURL_CA_BUNDLE } = process.env;
  const env: Record<string, string> = { UV_PYTHON_DOWNLOADS: 'never', ...(SSL_CERT_FILE ? { SSL_CERT_FILE } : {}) };
  for (const [name, variable, separator] of UV_SETTINGS) {
    const values = setting(name).replaceAll('\\n', ' ').split(' ').filter(Boolean);
    if (values.length > 0) env[variable] = values.join(separator);
  }
  // Without a certificate file, trust the system's certificates, as pip does.
  if (!env.SSL_CERT_FILE) env.UV_SYSTEM_CERTS = '1';
  const noIndex = ['1', 'true', 'yes', 'on'].includes(setting('no-index').toLowerCase());
  return { env, options: noIndex ? ['--no-index'] : [] };
}

/** Finds a usable Python. @throws Error with every Python that was tried and the reason against it */
async function findPython(): Promise<string> {
  const seen: string[] = [];
  for (const name of PYTHON_NAMES) {
    const fault = await output(name, ['-c', FAULT]);
    if (fault === '') return name;
    if (fault !== undefined) seen.push(`${name} ${fault.trim()}`);
  }
  const expected =
    'Python 3.10 to 3.13 with venv on the PATH; MLflow and the AWS emulator are Python programs. Install Python and run the command again';
  const got = seen.length > 0 ? seen.join('; ') : 'no python3 on the PATH';
  throw new Error(withFacts('No usable Python was found', { got, expected }));
}

/** Removes the caller's VIRTUAL_ENV and PYTHONPATH, which must not leak into the new environment. */
function installerEnvironment(): NodeJS.ProcessEnv {
  const { VIRTUAL_ENV: _venv, PYTHONPATH: _path, PYTHONHOME: _home, ...env } = process.env;
  return { ...env, PIP_NO_INPUT: '1' };
}

/** Runs a command and returns its standard output; `undefined` if it fails. */
const output = async (command: string, args: string[]): Promise<string | undefined> =>
  (await promisify(execFile)(command, args, { env: installerEnvironment() }).catch(() => undefined))?.stdout;

async function runToEnd(
  folder: string,
  command: string,
  args: string[],
  signal?: AbortSignal,
  more: Record<string, string> = {},
): Promise<void> {
  const logFile = `${folder}.log`;
  const env = { ...installerEnvironment(), ...more };
  try {
    const { end, tail } = await runGuarded(command, args, { logFile, env, signal, limitMs: INSTALL_LIMIT_MS });
    if (end === 'exit code 0') return;
    const message = `The Python environment could not be created: ${command} ${args.join(' ')}`;
    const expected =
      'exit code 0. Check the connection to the package index (PIP_INDEX_URL, UV_INDEX_URL, proxies) and free disk space (1 GB), then run the command again';
    throw new Error(`${withFacts(message, { got: end, expected })}; last output:\n${tail}`);
  } finally {
    rmSync(logFile, { force: true });
  }
}

/** Returns a child process's environment with `bin` first on the PATH. */
export const withBinOnPath = ({ bin }: PythonEnvironment, env = process.env): NodeJS.ProcessEnv => ({
  ...env,
  PATH: `${bin}${delimiter}${env.PATH ?? ''}`,
});
