/**
 * What captures ask of an account, by the calls that `npm run bench -- cost --write` counted, and the quotas that AWS publishes.
 * `--write` writes the tables of docs/scale.md.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import type { Log } from '../local/python/python-environment.ts';
import { packagePath } from '../src/core/process/package-folder.ts';
import { readCounts } from './cost/counts.ts';
import { demandsOf, scaleTables, withTables } from './cost/scale-page.ts';
import { type BenchResult, round } from './support/result.ts';

export default async function run(_log: Log, flags: string[] = []): Promise<BenchResult> {
  const counts = readCounts();
  const page = packagePath('docs', 'scale.md');
  if (flags.includes('--write')) writeFileSync(page, withTables(readFileSync(page, 'utf8'), scaleTables(counts)));
  return {
    ratio: 1,
    ours: Object.fromEntries(
      demandsOf(counts).map(({ name, captures }) => [`captures a second by ${name}`, round(captures, 1)]),
    ),
    peer: {},
    machine: counts.machine,
    versions: { counted: counts.at, MLflow: counts.mlflow },
    checks: [],
    notes: ['by the quotas of a new account, of files of one capture'],
  };
}
