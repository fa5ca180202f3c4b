/** Finds the keys of AIPerf's result files that are missing in ours. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'csv-parse/sync';
import { readLines } from './replay.ts';

type Json = Record<string, unknown>;

const isMetric = (value: unknown): value is Json => typeof value === 'object' && value !== null && 'unit' in value;

/** Returns `tag` of each key, `tag.statistic` of each metric, and `tag [unit]`. */
function summaryKeys(summary: Json): Set<string> {
  const keys = new Set<string>();
  for (const [tag, value] of Object.entries(summary)) {
    keys.add(tag);
    if (!isMetric(value)) continue;
    keys.add(`${tag} [${value.unit}]`);
    for (const statistic of Object.keys(value)) keys.add(`${tag}.${statistic}`);
  }
  return keys;
}

const recordKeys = (lines: readonly Json[]): Set<string> =>
  new Set(
    lines.flatMap((line) =>
      ['metadata', 'metrics', 'error'].flatMap((part) =>
        Object.entries((line[part] ?? {}) as Json).flatMap(([key, value]) => [
          `${part}.${key}`,
          ...(isMetric(value) ? [`${part}.${key} [${value.unit}]`] : []),
        ]),
      ),
    ),
  );

function keysOf(directory: string): Record<string, Set<string>> {
  const path = (name: string): string => join(directory, name);
  const json = (name: string): Json => JSON.parse(readFileSync(path(name), 'utf8')) as Json;
  const cells = (name: string, column: number): Set<string> =>
    new Set(
      (parse(readFileSync(path(name)), { relax_column_count: true, skip_empty_lines: true }) as string[][]).map(
        (row) => row[column] ?? '',
      ),
    );
  return {
    summary: summaryKeys(json('profile_export_aiperf.json')),
    csv: cells('profile_export_aiperf.csv', 0),
    records: recordKeys(readLines(path('profile_export.jsonl'))),
  };
}

/** Returns `tag` for `tag.statistic` and `tag [unit]`; for a record, `metrics.tag`. */
function tagOf(key: string): string {
  const name = key.replace(/ \[.*$/, '');
  return /^(metadata|metrics|error)\./.test(name) ? name : name.replace(/\..*$/, '');
}

/** Returns the sorted keys of the files in `theirs` that are missing in `ours`, by file. For a missing tag, only the tag. */
export function missingKeys(theirs: string, ours: string): Record<string, string[]> {
  const found = keysOf(ours);
  return Object.fromEntries(
    Object.entries(keysOf(theirs)).map(([file, keys]) => {
      const missing = [...keys].filter((key) => !found[file]?.has(key));
      const tags = file.toLowerCase().endsWith('csv') ? missing : missing.map(tagOf);
      const whole = new Set(tags.filter((tag) => ![...(found[file] ?? [])].some((key) => tagOf(key) === tag)));
      return [file, [...whole, ...missing.filter((_, i) => !whole.has(tags[i] ?? ''))].sort()];
    }),
  );
}
