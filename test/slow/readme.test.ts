/** Runs the documents as they are written: `npm start`, and in a second shell all blocks for the local environment, line by line. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../local/machine/free-port.ts';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { documents, shellBlocks } from '../helpers/document-commands.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

/** The README's come first: they define what the others use. */
const blocks = documents()
  .flatMap(shellBlocks)
  .filter(({ test }) => test === 'local');

/** The shell of a person without AWS, with this project's Node. */
const environment = (): NodeJS.ProcessEnv => ({
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(AWS|MLFLOW|CDK|STACK)_/.test(name))),
  PATH: `${packagePath('node_modules', '.bin')}:${process.env.PATH}`,
});

/** Commands that say by their exit code what they have found in the examples. */
const FIND = /^inference-monitor (inspect|status) /;

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

let start: ChildProcess;
let shell: ChildProcess | undefined;
let folder: string;
let output = '';

beforeAll(async () => {
  await defaultPythonEnvironment();
  // Files that the commands write stay out of the project: in this folder, each of its files is a link.
  folder = temporaryFolder('readme-');
  for (const name of readdirSync(packagePath())) symlinkSync(packagePath(name), join(folder, name));
  start = spawn('npm', ['start'], {
    cwd: packagePath(),
    env: environment(),
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  await new Promise<void>((resolve, reject) => {
    start.stdout?.on('data', (data: Buffer) => {
      output += data.toString();
      if (output.includes('until Ctrl-C')) resolve();
    });
    start.once('close', (code) => reject(new Error(`npm start ended with ${code}:\n${output}`)));
  });
});

afterAll(async () => {
  // What the shell has left in the background, which would keep this test's pipes open.
  if (shell?.pid !== undefined) killGroup(shell.pid);
  const ended = new Promise((resolve) => start.once('close', resolve));
  if (start.pid !== undefined) process.kill(-start.pid, 'SIGINT');
  await ended;
});

test('every line of the blocks for the local environment succeeds', async () => {
  const port = String(await freePort());
  const [, envFile = ''] = /^source (\S+)$/m.exec(output) ?? [];
  const lines = blocks.flatMap((block) => block.lines);
  expect(lines).toContain('source .local/env');
  const hasAws = spawnSync('aws', ['--version']).status === 0;
  const script = lines
    // The environment of another npm start may be `.local/env`, and another server may be at port 8000.
    .map((line) => (line === 'source .local/env' ? `source ${envFile}` : line.replaceAll('8000', port)))
    .filter((line) => hasAws || !/^(aws|start) /.test(line))
    .map((line) => (FIND.test(line) ? `${line} || [[ $? == [13] ]]` : line))
    .flatMap((line) => [`echo ${JSON.stringify(`▶ ${line.replaceAll(/["$\\`]/g, '')}`)}`, line]);
  // The stand-in endpoint runs in the background of this shell.
  const code = await new Promise<number | null>((resolve) => {
    shell = spawn('bash', ['-e'], { cwd: folder, env: environment(), stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    for (const stream of [shell.stdout, shell.stderr]) {
      stream?.on('data', (data: Buffer) => {
        output += data.toString();
      });
    }
    shell.once('exit', resolve);
    shell.stdin?.end(`${script.join('\n')}\nkill %1\n`);
  });
  if (code !== 0) throw new Error(`The README ended with ${code}:\n${output.slice(-3_000)}`);
  expect(output).toMatch(/1\. harm: \d+ of \d+ verdicts fail/);
  expect(output).toMatch(/evaluation dataset failures/);
  expect(existsSync(join(folder, 'replays', 'after', 'report.html'))).toBe(true);
});
