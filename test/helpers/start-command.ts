/** Local commands as a user runs them, and tests of an `npm start` that is stopped. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { descendantsOf, runningProcesses } from './deployed-processes.ts';

export interface Command {
  process: ChildProcess;
  /** Its output so far. */
  output: () => string;
  code: Promise<number | null>;
}

/** Certificates and mirrors of package registries are kept, since the command may have to create its Python environment. */
const withoutAws = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !/^(AWS|MLFLOW|CDK|FUNCTION)_/.test(name)));

export function command(script: string, args: string[], env: Record<string, string>): Command {
  const child = spawn(process.execPath, [packagePath('local', script), ...args], {
    cwd: packagePath(),
    env: { ...withoutAws(process.env), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (data: Buffer) => {
      text += data.toString();
    });
  }
  const code = new Promise<number | null>((resolve) => child.once('close', resolve));
  return { process: child, output: () => text, code };
}

/** `npm start`, with these arguments. */
export const startCommand = (args: string[], env: Record<string, string>): Command =>
  command('../bin/inference-monitor.ts', ['start', ...args], env);

/** @param moments when it gets a Ctrl-C, each with the text that it has printed by then */
export function testStop(moments: [when: string, said: string][]): void {
  describe('npm start when it is stopped', () => {
    // None of the cases waits for MLflow, which takes longest.
    test.each(moments)('%s: reports it immediately and leaves nothing behind', async (_, said) => {
      const { FUNCTION_BUNDLES = '' } = process.env;
      const start = startCommand([], { FUNCTION_BUNDLES });
      while (!start.output().includes(said)) await new Promise((resolve) => setTimeout(resolve, 20));
      const started = descendantsOf(start.process.pid ?? 0);
      const at = Date.now();
      start.process.kill('SIGINT');
      expect(await start.code).toBe(130);
      // This takes 5 s on an idle machine.
      expect(Date.now() - at).toBeLessThan(30_000);
      expect(start.output()).toMatch(/Stopping …\n$/);
      const own = `environment-${start.process.pid}-`;
      const left = runningProcesses().filter(({ pid, args }) => args.includes(own) || (args && started.includes(pid)));
      expect([...left, ...readdirSync(packagePath('.local')).filter((name) => name.includes(own))]).toEqual([]);
    });
  });
}
