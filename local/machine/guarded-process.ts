/** Child processes that never outlive this process. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';

export type GuardedProcess = ReturnType<typeof startGuarded>;

/** Grace period for a shutdown after SIGTERM, before SIGKILL. */
const GRACE_MS = 2_000;
const GONE_POLL_MS = 20;
/** A killed process is gone within milliseconds, unless it is a zombie that no parent reaps … */
const GONE_LIMIT_MS = 1_000;
/** … or it waits for a slow disk. */
const LIVING_LIMIT_MS = 20_000;

/**
 * Replaces the shell with the command (`exec`) after starting a watcher that kills the process group when standard input
 * closes. This process holds the only other end of that pipe, so the pipe closes when this process ends, even by SIGKILL.
 */
const GUARD = 'exec 3<&0; (read -r _ <&3; kill -KILL 0) 2>/dev/null & exec 3<&-; exec "$@" </dev/null';

interface GuardOptions {
  logFile: string;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  signal?: AbortSignal;
}

/**
 * Starts a command in a separate process group, with its output in `logFile`. The group ends when `stop` is called, when
 * `signal` is aborted, and when this process ends for any reason (Ctrl-C, a crash, SIGKILL).
 *
 * @example
 *     const server = startGuarded('python3', ['-m', 'http.server'], { logFile: 'server.log' });
 */
export function startGuarded(command: string, args: readonly string[], options: GuardOptions) {
  options.signal?.throwIfAborted();
  const child = spawnGuarded(command, args, options);
  const { pid, stdin } = child;
  if (pid === undefined) throw new Error(`${command} could not be started; got: no /bin/sh; expected: a POSIX shell`);
  stdin?.on('error', () => {});

  let description: string | undefined;
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => {
      description = signal ?? `exit code ${code}`;
      // Closing the pipe makes the watcher kill the rest of the group.
      stdin?.destroy();
      resolve(description);
    });
  });
  const stop = async () => {
    if (description === undefined) {
      child.ref();
      signalGroup(pid, 'SIGTERM');
      const timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), GRACE_MS);
      await exited;
      clearTimeout(timer);
    }
    await groupGone(pid);
  };
  const aborted = () => void stop();
  options.signal?.addEventListener('abort', aborted, { once: true });
  void exited.then(() => options.signal?.removeEventListener('abort', aborted));

  const logTail = (lines = 20) => readFileSync(options.logFile, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  return { pid, exited, ended: () => description, logTail, stop };
}

/** Spawns the command under the guard. Neither the child nor its pipe keeps this process running. */
function spawnGuarded(command: string, args: readonly string[], { logFile, env, cwd }: GuardOptions): ChildProcess {
  mkdirSync(dirname(logFile), { recursive: true });
  const log = openSync(logFile, 'w');
  try {
    const options: SpawnOptions = { stdio: ['pipe', log, log], env, cwd, detached: true };
    const child = spawn('/bin/sh', ['-c', GUARD, 'sh', command, ...args], options);
    child.unref();
    (child.stdin as unknown as { unref?(): void } | null)?.unref?.();
    return child;
  } finally {
    closeSync(log);
  }
}

/** Kills the whole group, since children may outlive the process, and waits until it is gone and its ports are free. */
async function groupGone(pid: number): Promise<void> {
  const since = Date.now();
  while (signalGroup(pid, 'SIGKILL')) {
    const waited = Date.now() - since;
    if (waited > LIVING_LIMIT_MS || (waited > GONE_LIMIT_MS && !isAnyAlive(pid))) break;
    await new Promise((resolve) => setTimeout(resolve, GONE_POLL_MS));
  }
}

/**
 * Runs a command to its end. `signal` and the time limit stop it, with all processes that it started.
 *
 * @returns how it ended, such as `exit code 1`, and the end of its output
 * @throws the signal's reason once it is aborted
 *
 * @example
 *     const { end, tail } = await runGuarded('npm', ['ci'], { logFile: 'npm.log', limitMs: 60_000 });
 */
export async function runGuarded(
  command: string,
  args: readonly string[],
  options: GuardOptions & { limitMs: number },
): Promise<{ end: string; tail: string }> {
  const child = startGuarded(command, args, options);
  let late: string | undefined;
  // The timer also keeps this process running.
  const timer = setTimeout(() => {
    late = `no end after ${options.limitMs / 1000} s`;
    void child.stop();
  }, options.limitMs);
  const end = await child.exited;
  clearTimeout(timer);
  await child.stop();
  options.signal?.throwIfAborted();
  return { end: late ?? end, tail: child.logTail(40) };
}

/** Whether a group has processes other than zombies, according to Linux's /proc. Returns false without /proc. */
function isAnyAlive(group: number): boolean {
  if (!existsSync('/proc/self/stat')) return false;
  return readdirSync('/proc').some((id) => {
    if (!/^\d+$/.test(id)) return false;
    try {
      // The command's name is in parentheses and may contain some, so fields are read after the last one.
      const [state, , ofGroup] = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
      return state !== 'Z' && Number(ofGroup) === group;
    } catch {
      // The process ended in the meantime.
      return false;
    }
  });
}

/** @returns whether the group still has a process */
function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch (error) {
    // ESRCH: the group is empty; EPERM: on macOS, only zombies remain.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ESRCH' && code !== 'EPERM') throw error;
    return false;
  }
}
