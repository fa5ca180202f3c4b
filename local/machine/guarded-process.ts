/** A server as a child process that never outlives this one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';

export interface GuardedProcess {
  pid: number;
  /** Resolves with a description such as `exit code 1` when the process has ended. */
  exited: Promise<string>;
  /** Its description when the process has ended, else `undefined`. */
  ended(): string | undefined;
  logTail(lines?: number): string;
  /** Ends the process and everything it started. Safe to call again. */
  stop(): Promise<void>;
}

/** What a server gets to end by itself after SIGTERM before it is killed. */
const GRACE_MS = 2_000;
/** A killed process is gone within milliseconds, unless it is a zombie that nobody takes in … */
const GONE_POLL_MS = 20;
const GONE_LIMIT_MS = 1_000;
/** … or waits for a slow disk. */
const LIVING_LIMIT_MS = 20_000;

/**
 * Becomes the command (`exec`), after leaving a watcher behind that kills the process group when standard input ends.
 * That pipe's other end is ours alone, so it ends when we die, even by SIGKILL.
 */
const GUARD = 'exec 3<&0; (read -r _ <&3; kill -KILL 0) 2>/dev/null & exec 3<&-; exec "$@" </dev/null';

/**
 * Starts a command in a process group of its own, its output going to `logFile`. The group ends when `stop` is called,
 * when `signal` is aborted, and when this process ends in whatever way (Ctrl-C, a crash, SIGKILL).
 */
export function startGuarded(
  command: string,
  args: readonly string[],
  options: { logFile: string; env?: NodeJS.ProcessEnv; cwd?: string; signal?: AbortSignal },
): GuardedProcess {
  options.signal?.throwIfAborted();
  mkdirSync(dirname(options.logFile), { recursive: true });
  const log = openSync(options.logFile, 'w');
  let child: ChildProcess;
  try {
    child = spawn('/bin/sh', ['-c', GUARD, 'sh', command, ...args], {
      stdio: ['pipe', log, log],
      env: options.env,
      cwd: options.cwd,
      detached: true,
    });
  } finally {
    closeSync(log);
  }
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${command} could not be started: /bin/sh is missing`);
  // The server's life must not keep ours going.
  child.unref();
  const { stdin } = child;
  if (stdin && 'unref' in stdin) (stdin as unknown as { unref(): void }).unref();

  let description: string | undefined;
  const exited = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => {
      description = signal ?? `exit code ${code}`;
      // Closing the pipe makes the watcher end whatever the process left behind.
      stdin?.destroy();
      resolve(description);
    });
  });
  stdin?.on('error', () => {});

  const logTail = (lines = 20) => {
    const text = readFileSync(options.logFile, 'utf8').trimEnd();
    return text.split('\n').slice(-lines).join('\n');
  };

  const stop = async () => {
    if (description === undefined) {
      child.ref();
      signalGroup(pid, 'SIGTERM');
      const timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), GRACE_MS);
      await exited;
      clearTimeout(timer);
    }
    // What the process started may outlive it: the group goes as a whole. It holds its port until it is really gone.
    const since = Date.now();
    while (signalGroup(pid, 'SIGKILL')) {
      const waited = Date.now() - since;
      if (waited > LIVING_LIMIT_MS || (waited > GONE_LIMIT_MS && !isAnyAlive(pid))) break;
      await new Promise((resolve) => setTimeout(resolve, GONE_POLL_MS));
    }
  };

  const aborted = () => void stop();
  options.signal?.addEventListener('abort', aborted, { once: true });
  void exited.then(() => options.signal?.removeEventListener('abort', aborted));

  return { pid, exited, ended: () => description, logTail, stop };
}

/**
 * Runs a command to its end, which `signal` and the limit bring about, with all that it has started.
 *
 * @returns how it ended, such as `exit code 1`, and the end of its output
 * @throws the signal's reason once it is aborted
 */
export async function runGuarded(
  command: string,
  args: readonly string[],
  options: Parameters<typeof startGuarded>[2] & { limitMs: number },
): Promise<{ end: string; tail: string }> {
  const child = startGuarded(command, args, options);
  let late: string | undefined;
  // It keeps this process going too.
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

/** Whether a group has more than zombies, by Linux's /proc; where there is none, nobody is taken for alive. */
function isAnyAlive(group: number): boolean {
  if (!existsSync('/proc/self/stat')) return false;
  return readdirSync('/proc').some((id) => {
    if (!/^\d+$/.test(id)) return false;
    try {
      // The command's name stands in brackets and may hold brackets: what follows its last one is regular.
      const [state, , ofGroup] = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
      return state !== 'Z' && Number(ofGroup) === group;
    } catch {
      // It ended while we looked.
      return false;
    }
  });
}

/** @returns whether there was anybody to signal */
function signalGroup(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch (error) {
    // ESRCH: nobody is left in the group; EPERM: on macOS, only zombies are.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ESRCH' && code !== 'EPERM') throw error;
    return false;
  }
}
