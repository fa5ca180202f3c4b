/** A Python script that answers each line with a line: one process for many questions, because importing MLflow takes seconds. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { packagePath } from '../../src/core/process/package-folder.ts';

const KEPT_STDERR = 4_000;

/** Starts a script of this folder. */
export function startPythonProcess(python: string, [script = '', ...args]: string[], env: NodeJS.ProcessEnv) {
  const child = spawn(python, [packagePath('test', 'helpers', script), ...args], { stdio: 'pipe', env });
  let complaints = '';
  child.stderr.on('data', (data: Buffer) => {
    complaints = (complaints + data.toString()).slice(-KEPT_STDERR);
  });
  const exited = once(child, 'exit');
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    /** @throws Error if the script says one, or has ended */
    ask: async <T extends object>(command: object): Promise<T> => {
      child.stdin.write(`${JSON.stringify(command)}\n`);
      const { value, done } = await answers.next();
      if (done) throw new Error(`${script} ended; its stderr ends with:\n${complaints}`);
      const answer = JSON.parse(value) as T & { error?: string };
      if (answer.error !== undefined) throw new Error(`${JSON.stringify(command)}: ${answer.error}`);
      return answer;
    },
    stop: async (): Promise<void> => {
      child.stdin.end();
      await exited;
    },
  };
}
