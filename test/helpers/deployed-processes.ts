/** Lists the processes of the machine, with and without `ps`, which slim images lack. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';

export interface RunningProcess {
  pid: number;
  parent: number;
  group: number;
  /** Command line; empty for a zombie. */
  args: string;
}

export function runningProcesses(): RunningProcess[] {
  return existsSync('/proc/self/stat') ? fromProc() : fromPs();
}

function fromProc(): RunningProcess[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const args = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').join(' ');
      // The name of the command is in brackets and may contain brackets. The fields after the last one are regular.
      const [, parent, group] = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
      return [{ pid: Number(name), parent: Number(parent), group: Number(group), args }];
    } catch {
      // The process ended in the meantime.
      return [];
    }
  });
}

function fromPs(): RunningProcess[] {
  const rows = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,pgid=,args='], { encoding: 'utf8' }).split('\n');
  return rows.flatMap((row) => {
    const [, pid, parent, group, args] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(row) ?? [];
    return args === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), group: Number(group), args }];
  });
}

/** Returns the descendants of a process. */
export const descendantsOf = (pid: number): number[] =>
  runningProcesses().flatMap((one) => (one.parent === pid ? [one.pid, ...descendantsOf(one.pid)] : []));

/** The addresses on which processes listen for TCP, from Linux's /proc: `<hexadecimal address>:<port>`. */
export function listeningOf(pids: readonly number[]): string[] {
  const own = new Set(pids.flatMap(filesOf));
  const rows = ['tcp', 'tcp6'].flatMap((name) => readFileSync(`/proc/net/${name}`, 'utf8').trim().split('\n').slice(1));
  return rows.flatMap((row) => {
    const [, local = '', , state, , , , , , inode] = row.trim().split(/\s+/);
    const [address, port = ''] = local.split(':');
    return state === '0A' && own.has(`socket:[${inode}]`) ? [`${address}:${Number.parseInt(port, 16)}`] : [];
  });
}

function filesOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((file) => {
      try {
        return [readlinkSync(`/proc/${pid}/fd/${file}`)];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}
