/** The local MLflow server and its Python environment: errors name a remedy, and no processes or files are left behind. */
import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { ensurePythonEnvironment, uvEnvironment } from '../../local/python/python-environment.ts';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { startMlflowServer } from '../../local/servers/mlflow-server.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { runningProcesses } from '../helpers/deployed-processes.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

/** A package that is built here, so that the test does not depend on a package index. */
const PACKAGES = { tiny: '1.1.0' };
const MAKE_WHEELS = `
import sys, zipfile
for version in ("1.0.0", "1.1.0"):
    with zipfile.ZipFile(f"{sys.argv[1]}/tiny-{version}-py3-none-any.whl", "w") as wheel:
        info = f"tiny-{version}.dist-info"
        wheel.writestr("tiny.py", f"__version__ = '{version}'\\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: tiny\\nVersion: {version}\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\\n" for name in wheel.namelist()))
`;

/** Runs a program in a separate Node process. */
const program = (code: string): string[] => [
  '--input-type=module',
  '--eval',
  code.replaceAll('#', `${packagePath('local')}/`),
];
const run = async (code: string, env: NodeJS.ProcessEnv = process.env): Promise<string> => {
  const { stdout } = await promisify(execFile)(process.execPath, program(code), { env, cwd: packagePath() });
  return stdout;
};
const ensure = (name: string, packages: Record<string, string> = PACKAGES): string => `
  import { ensurePythonEnvironment, uvEnvironment } from '#python/python-environment.ts';
  try {
    const log = (line) => console.log(line);
    const { python } = await ensurePythonEnvironment({ name: '${name}', packages: ${JSON.stringify(packages)}, log });
    console.log('python:' + python);
  } catch (error) {
    console.log('error:' + error.message);
  }`;
const pythonOf = (output: string): string => /^python:(.*)$/m.exec(output)?.[1] ?? '';
const versionIn = async (python: string): Promise<string> =>
  (await promisify(execFile)(python, ['-c', 'import tiny; print(tiny.__version__)'])).stdout.trim();

/** Processes of a group without zombies. */
const livingInGroup = (group: number) => runningProcesses().filter((one) => one.group === group && one.args !== '');

describe('a Python environment', () => {
  const name = `test-${process.pid}`;
  const folders = () => readdirSync(packagePath('.venvs')).filter((entry) => entry.startsWith(name));
  const wheels = temporaryFolder('wheels-');
  const before = { ...process.env };
  beforeAll(async () => {
    const { python } = await defaultPythonEnvironment();
    await promisify(execFile)(python, ['-c', MAKE_WHEELS, wheels]);
    await uvEnvironment();
    Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels, UV_OFFLINE: '1', UV_FIND_LINKS: wheels });
  });
  afterAll(() => {
    process.env = before;
    for (const entry of folders()) rmSync(packagePath('.venvs', entry), { recursive: true, force: true });
  });

  test('is created once by several concurrent processes', async () => {
    const outputs = await Promise.all([1, 2, 3].map(() => run(ensure(name))));
    expect(outputs.filter((output) => output.includes('Created the Python environment'))).toHaveLength(1);
    expect(new Set(outputs.map(pythonOf)).size).toBe(1);
    expect(await versionIn(pythonOf(outputs[0] ?? ''))).toBe('1.1.0');
    expect(folders().filter((entry) => !entry.endsWith('.lock'))).toHaveLength(1);
  });

  test('is created again if it is incomplete', async () => {
    const { bin, python } = await ensurePythonEnvironment({ name, packages: PACKAGES });
    rmSync(join(bin, '..', '.complete'));
    rmSync(join(bin, '..', 'lib'), { recursive: true });
    await ensurePythonEnvironment({ name, packages: PACKAGES });
    expect(await versionIn(python)).toBe('1.1.0');
  });

  test('is created with pip’s index settings', async () => {
    const { UV_OFFLINE: _offline, UV_FIND_LINKS: _links, ...told } = process.env;
    const output = await run(ensure(`${name}-uv`), told);
    expect(await versionIn(pythonOf(output))).toBe('1.1.0');
  });

  test('leaves nothing running if its creation is canceled', async () => {
    const path = temporaryFolder('only-python-');
    const waiting = 'ps -o pgid= -p $$ > "$0.part"; mv "$0.part" "$0.group"; sleep 600 & wait';
    writeFileSync(join(path, 'python3'), `#!/bin/sh\ncase $1 in -c) ;; *) ${waiting} ;; esac\n`, { mode: 0o755 });
    const { PATH } = process.env;
    process.env.PATH = `${path}:${PATH}`;
    try {
      const calling = new AbortController();
      const made = ensurePythonEnvironment({ name: `${name}-off`, packages: PACKAGES, signal: calling.signal });
      while (!existsSync(`${path}/python3.group`)) await new Promise((resolve) => setTimeout(resolve, 20));
      const group = Number(readFileSync(`${path}/python3.group`, 'utf8'));
      calling.abort(new Error('called off'));
      await expect(made).rejects.toThrow('called off');
      expect(livingInGroup(group)).toEqual([]);
    } finally {
      process.env.PATH = PATH;
    }
  });

  test('names what to install if no Python is found', async () => {
    const output = await run(ensure(`${name}-none`), { ...process.env, PATH: '/nonexistent' });
    expect(output).toMatch(/error:No usable Python was found; got: no python3 on the PATH; expected: Python 3/);
  });

  test('shows the installer’s output if a package does not exist', async () => {
    const output = await run(ensure(`${name}-wrong`, { tiny: '99.0.0' }));
    expect(output).toContain('error:The Python environment could not be created');
    expect(output).toMatch(/tiny==99\.0\.0/);
  });
});

test('a server that cannot start fails with the end of its log and leaves nothing', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = taken.address() as AddressInfo;
  await expect(startMlflowServer({ port })).rejects.toThrow(/Port \d+ is in use/);
  taken.close();
  const directory = temporaryFolder('mlflow-broken-');
  writeFileSync(join(directory, 'mlflow.db'), 'this is no database');
  await expect(startMlflowServer({ directory })).rejects.toThrow(
    /The MLflow server did not start; got: exit code 1.*end of its log:[\s\S]*not a database/,
  );
});

describe('a guarded process', () => {
  const leaveRunning = (end: string) => `
    import { startGuarded } from '#machine/guarded-process.ts';
    const logFile = process.argv[1];
    // Two processes, like MLflow.
    const { pid } = startGuarded('/bin/sh', ['-c', 'sleep 600 & sleep 600'], { logFile });
    console.log(pid);
    ${end}`;

  test.each([
    ['SIGINT', 'setInterval(() => {}, 1000);'],
    ['SIGKILL', 'setInterval(() => {}, 1000);'],
    ['a normal exit', ''],
    ['a crash', 'setTimeout(() => { throw new Error("crash"); }, 100);'],
  ])('ends it when its process ends by %s', async (how, end) => {
    const directory = temporaryFolder('guarded-');
    const code = [...program(leaveRunning(end)), join(directory, 'log')];
    const child = spawn(process.execPath, code, { cwd: packagePath(), stdio: ['ignore', 'pipe', 'ignore'] });
    const line = await new Promise<string>((resolve) => {
      createInterface({ input: child.stdout }).once('line', resolve);
    });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    if (how.startsWith('SIG')) {
      // The shell prints nothing after starting its second process, so this waits for it.
      const started = () => livingInGroup(Number(line)).length >= 2;
      for (let tries = 0; tries < 600 && !started(); tries += 1) await new Promise((r) => setTimeout(r, 100));
      expect(started()).toBe(true);
      child.kill(how as NodeJS.Signals);
    }
    await ended;
    const living = () => livingInGroup(Number(line));
    for (let tries = 0; tries < 600 && living().length > 0; tries += 1) await new Promise((r) => setTimeout(r, 100));
    expect(living()).toEqual([]);
  });
});
