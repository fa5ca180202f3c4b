/**
 * `npm run bench -- NAME [--json]`: measures the product beside a peer or a limit in the same run, and prints a ratio.
 *
 * Names: ingest, ingest-artifacts, evaluate, cold-start, replay, replay-shard. `--rounds N` and `--records N` make a quicker run.
 */
import { existsSync } from 'node:fs';
import { projectPath } from '../local/project-root.ts';
import type { BenchResult } from './support/result.ts';
import { printResult } from './support/result.ts';

const NAMES = ['ingest', 'ingest-artifacts', 'evaluate', 'cold-start', 'replay', 'replay-shard'].filter((name) =>
  existsSync(projectPath('bench', `${name}.ts`)),
);

const [name, ...flags] = process.argv.slice(2);
if (name === undefined || !NAMES.includes(name)) {
  console.error(
    `Which benchmark? got: ${name ?? 'nothing'}; expected: one of ${NAMES.join(', ')}, and --json if wanted`,
  );
  process.exit(2);
}
const json = flags.includes('--json');
// What is being done goes to standard error, so that standard output is the result alone.
const log = (line: string): void => console.error(line);
const { run } = (await import(`./${name}.ts`)) as {
  run(log: (line: string) => void, flags: string[]): Promise<BenchResult>;
};
const result = await run(log, flags);
if (json) console.log(JSON.stringify(result, null, 2));
else printResult(result);
process.exit(result.checks.every(({ ok }) => ok) ? 0 : 1);
