/** Measures how long the built command line takes to start: the help, the version, and each command's help, beside a bare Node. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { COMMANDS } from '../bin/commands.ts';
import type { Log } from '../local/python/python-environment.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { atMost, type BenchResult, machine, median, round } from './support/result.ts';

const ROUNDS = 9;
/** What a person who waits for help does not notice. */
const MAX_HELP_MS = 250;

const run = promisify(execFile);

async function millisecondsOf(args: readonly string[]): Promise<number> {
  const started = performance.now();
  await run(process.execPath, args);
  return performance.now() - started;
}

export default async function bench(log: Log): Promise<BenchResult> {
  await run('npm', ['run', '-s', 'build'], { cwd: packagePath() });
  const script = packagePath('dist', 'inference-monitor.js');
  const cases: Record<string, string[]> = {
    'node -e 0': ['-e', '0'],
    '--help': [script, '--help'],
    '--version': [script, '--version'],
    ...Object.fromEntries(Object.keys(COMMANDS).map((name) => [`${name} --help`, [script, name, '--help']])),
  };
  const found = new Map<string, number[]>(Object.keys(cases).map((name) => [name, []]));
  for (let n = 0; n <= ROUNDS; n += 1) {
    // In turn, so that other work on the machine affects all alike.
    for (const [name, args] of Object.entries(cases)) {
      const ms = await millisecondsOf(args);
      // The first round fills the compile cache.
      if (n > 0) found.get(name)?.push(ms);
    }
    log(`round ${n} of ${ROUNDS}`);
  }
  const medians = Object.fromEntries([...found].map(([name, values]) => [name, round(median(values), 0)]));
  const { 'node -e 0': bare = Number.NaN, ...ours } = medians;
  const help = ours['--help'] ?? Number.NaN;
  return {
    name: 'command-line',
    ratio: round(bare / help),
    ours,
    peer: { 'node -e 0': bare },
    machine: machine(),
    versions: { node: process.version },
    checks: [atMost('milliseconds to --help', help, MAX_HELP_MS)],
    notes: ['milliseconds of the process from its start to its end, medians, with a warm compile cache'],
  };
}
