/**
 * `npm run bench -- NAME [--json]`: measures the product against a peer or a limit in the same run, and prints a ratio.
 * `--help` lists the benchmarks and the options that shorten them.
 */
import { existsSync } from 'node:fs';
import { describeError } from '../local/machine/describe-error.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { type FlagKinds, readFlags } from './support/flags.ts';
import type { BenchResult } from './support/result.ts';
import { named, printResult } from './support/result.ts';

const BENCHMARKS: Record<string, FlagKinds> = {
  evaluate: { records: 'number', rounds: 'number', managed: 'switch' },
  replay: { rounds: 'number', only: 'texts', 'no-peer': 'switch' },
  redact: { rounds: 'number' },
  'capture-client': { requests: 'number' },
  'ground-truth': { labels: 'number', hours: 'number' },
  'ground-truth-intervals': { simulations: 'number' },
  gate: { releases: 'number' },
  alarms: { years: 'number', drops: 'number' },
  rates: { simulations: 'number' },
  sample: { days: 'number' },
  status: { runs: 'number', captures: 'number', weeks: 'number' },
  'label-weeks': { simulations: 'number' },
  'judge-cost': {},
  scale: { write: 'switch' },
  cost: { otlp: 'switch', only: 'texts', files: 'number', 'judge-ms': 'number', write: 'switch' },
};
const NAMES = Object.keys(BENCHMARKS).filter((name) => existsSync(packagePath('bench', `${name}.ts`)));

const [name = '', ...args] = process.argv.slice(2);
if (args.includes('--help') || name === '--help' || !NAMES.includes(name)) {
  const isHelp = process.argv.includes('--help');
  const lines = NAMES.map(
    (each) =>
      `  ${each.padEnd(24)}${Object.keys(BENCHMARKS[each] ?? {})
        .map((flag) => `--${flag}`)
        .join(' ')}`,
  );
  (isHelp ? console.log : console.error)(
    [
      ...(isHelp ? [] : [`The benchmark is unknown; got: ${name || 'nothing'}; expected: one of the names below`]),
      'Usage: npm run bench -- NAME [--json] [options]. The names and their options:',
      ...lines,
    ].join('\n'),
  );
  process.exit(isHelp ? 0 : 2);
}
let flags: string[] = [];
try {
  flags = readFlags(args, { json: 'switch', ...BENCHMARKS[name] });
} catch (error) {
  console.error(describeError(error));
  process.exit(2);
}
const json = flags.includes('--json');
// Progress goes to standard error, so that standard output contains only the result.
const log = (line: string): void => console.error(line);
const { default: run } = (await import(`./${name}.ts`)) as {
  default(log: (line: string) => void, flags: string[]): Promise<BenchResult>;
};
const result = named(name, await run(log, flags));
if (json) console.log(JSON.stringify(result, null, 2));
else printResult(result);
process.exit(result.checks.every(({ ok }) => ok) ? 0 : 1);
