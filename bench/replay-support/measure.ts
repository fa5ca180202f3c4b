/** Measures a replay in a child process from outside: its arrivals at the server, the memory of all its processes. */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import type { Arrival } from '../../test/doubles/arrivals.ts';
import { offsetMs, type Scenario } from './scenarios.ts';

export interface MeasuredRun {
  /** Lateness of the requests relative to the least late one, ms. */
  latenessP99: number;
  /** From the start of the process to the first request at the server. */
  firstRequestSeconds: number;
  /** Peak of the total memory of the process and its descendants, millions of bytes. */
  megabytes: number;
  /** CPU time of the process and its descendants. */
  cpuSeconds: number;
}

const POLL_MS = 100;
/** Descendants are searched only once per this number of samples, since that takes 2 ms of one of the measured CPUs. */
const SCAN_EVERY = 7;
const CLOCK_TICKS = 100;
const PAGE_BYTES = 4096;
const BYTES_PER_MEGABYTE = 1e6;

interface Usage {
  bytes: number;
  ticks: number;
}

/** A process in /proc. */
interface Found extends Usage {
  parent: number;
}

function findProcess(pid: number): Found | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    return { parent: Number(fields[1]), ticks, bytes: Number(fields[21]) * PAGE_BYTES };
  } catch {
    // It ended in the meantime.
    return undefined;
  }
}

/** Samples memory and CPU time of a process and its descendants. */
class ProcessTree {
  readonly #root: number;
  #members: number[] = [];
  #samples = 0;

  constructor(root: number) {
    this.#root = root;
  }

  sample(): Usage {
    if (this.#samples++ % SCAN_EVERY === 0) this.#members = this.#scan();
    const sum: Usage = { bytes: 0, ticks: 0 };
    for (const pid of this.#members) {
      const found = findProcess(pid);
      sum.bytes += found?.bytes ?? 0;
      sum.ticks += found?.ticks ?? 0;
    }
    return sum;
  }

  #scan(): number[] {
    const parents = new Map<number, number>();
    for (const entry of readdirSync('/proc')) {
      const found = /^\d+$/.test(entry) ? findProcess(Number(entry)) : undefined;
      if (found) parents.set(Number(entry), found.parent);
    }
    return [...parents.keys()].filter((pid) => {
      let at: number | undefined = pid;
      while (at !== undefined && at !== this.#root && at !== 1) at = parents.get(at);
      return at === this.#root;
    });
  }
}

/** Returns the peak memory of one process, which may lie between two samples. */
function highWaterMark(pid: number): number {
  try {
    return 1024 * Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Returns the arrivals since the last call. */
async function takeArrivals(url: string): Promise<Arrival[]> {
  const reply = await fetch(`${url}/_arrivals`, { method: 'DELETE' });
  return (await reply.json()) as Arrival[];
}

/** @returns the lateness of 99% of the requests relative to the least late one */
function latenessOf(arrivals: readonly Arrival[], scenario: Scenario): number {
  const delays = arrivals.map(({ number, atMs }) => atMs - offsetMs(scenario, number));
  const least = delays.reduce((a, b) => Math.min(a, b));
  const lateness = delays.map((delay) => delay - least).sort((a, b) => a - b);
  return lateness[Math.ceil(0.99 * lateness.length) - 1] ?? Number.NaN;
}

export interface Command {
  command: string;
  args: readonly string[];
  env?: NodeJS.ProcessEnv;
  cwd?: string;
}

/** Runs and measures a replay. @throws Error if the command fails, or if a request does not arrive exactly once */
export async function measureRun(
  server: string,
  scenario: Scenario,
  { command, args, env, cwd }: Command,
): Promise<MeasuredRun> {
  await takeArrivals(server);
  const startedAt = Date.now();
  const child = spawn(command, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => {
      output = (output + data.toString()).slice(-4000);
    });
  }
  let bytes = 0;
  let ticks = 0;
  const tree = new ProcessTree(child.pid ?? 0);
  const poll = setInterval(() => {
    const usage = tree.sample();
    bytes = Math.max(bytes, usage.bytes, highWaterMark(child.pid ?? 0));
    ticks = Math.max(ticks, usage.ticks);
  }, POLL_MS);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  clearInterval(poll);
  // Requests without a number are not captured ones: the peer also polls the server's metrics.
  const arrivals = (await takeArrivals(server)).filter(({ number }) => number >= 0);
  const numbers = new Set(arrivals.map(({ number }) => number));
  if (code !== 0 || numbers.size !== scenario.requests || arrivals.length !== scenario.requests) {
    throw new Error(
      `${command} ended with ${code}; ${arrivals.length} requests arrived, ${numbers.size} different ones; expected: ${scenario.requests}\n${output}`,
    );
  }
  const first = arrivals.reduce((a, { atMs }) => Math.min(a, atMs), Number.POSITIVE_INFINITY);
  return {
    latenessP99: latenessOf(arrivals, scenario),
    firstRequestSeconds: (first - startedAt) / 1000,
    megabytes: bytes / BYTES_PER_MEGABYTE,
    cpuSeconds: ticks / CLOCK_TICKS,
  };
}
