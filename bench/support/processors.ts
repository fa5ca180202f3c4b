/** Chooses the processors that the processes of a benchmark run on, so that a server and its clients do not take turns on one. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { promisify } from 'node:util';

/**
 * Moves a process with its threads and its descendants. What they start later stays there too.
 *
 * @param processors as `taskset` names them, such as `0` or `0-2`
 * @returns whether it could, which only Linux supports
 */
async function moveTo(processors: string, pid: number): Promise<boolean> {
  try {
    await promisify(execFile)('taskset', ['-a', '-c', '-p', processors, String(pid)]);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
    // One of them may have ended meanwhile.
    await Promise.all(children.map((child) => moveTo(processors, child)));
    return true;
  } catch {
    return false;
  }
}

/**
 * Gives a server that this process has started the last processor, and this process with all others that it has started the rest.
 *
 * @returns whether it could: it needs two processors, and Linux
 */
export async function separate(pid: number): Promise<boolean> {
  const last = cpus().length - 1;
  if (last < 1) return false;
  const rest = last === 1 ? '0' : `0-${last - 1}`;
  return (await moveTo(rest, process.pid)) && (await moveTo(String(last), pid));
}
