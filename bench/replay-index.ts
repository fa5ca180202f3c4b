/**
 * Measures memory and time of a replay's index with the maximum number of records, from twelve interleaved files so that they
 * must be sorted.
 *
 * `--records N` uses fewer.
 */
import type { Log } from '../local/python/python-environment.ts';
import { MAX_RECORDS, SortedIndex } from '../src/replay/source/sorted-index.ts';
import { numberFlag } from './support/flags.ts';
import { atMost, type BenchResult, machine, round } from './support/result.ts';

const TARGET_MEGABYTES = 500;
const FILES = 12;
const BYTES_PER_KILOBYTE = 1024;
const BYTES_PER_MEGABYTE = 1e6;

const peakMegabytes = (): number => (process.resourceUsage().maxRSS * BYTES_PER_KILOBYTE) / BYTES_PER_MEGABYTE;

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const records = numberFlag(flags, 'records', MAX_RECORDS);
  const before = peakMegabytes();
  const startedAt = performance.now();
  const index = new SortedIndex();
  const perFile = Math.ceil(records / FILES);
  for (let i = 0; i < records; i++) {
    const line = (i % perFile) + 1;
    index.add({
      timeMs: 1_795_000_000_000 + line * 1000,
      file: Math.floor(i / perFile),
      line,
      start: i * 2000,
      length: 2000,
    });
  }
  let seen = 0;
  let lastMs = 0;
  for (const batch of index.batches()) {
    for (const { timeMs } of batch) {
      if (timeMs < lastMs)
        throw new Error(`Record ${seen} is not sorted; got: ${timeMs}; expected: ${lastMs} or later`);
      lastMs = timeMs;
      seen++;
    }
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const megabytes = peakMegabytes();
  log(`${seen} records sorted and read in ${seconds.toFixed(1)} s, ${megabytes.toFixed(0)} MB`);
  return {
    name: 'replay-index',
    ratio: round(TARGET_MEGABYTES / megabytes),
    ours: { records: seen, seconds: round(seconds), 'MB before': round(before, 0), 'peak MB': round(megabytes, 0) },
    peer: { 'MB allowed': TARGET_MEGABYTES },
    machine: machine(),
    versions: { node: process.version },
    checks: [atMost(`${records} records: MB of the whole process`, megabytes, TARGET_MEGABYTES)],
    notes: ['ratio: allowed memory over used memory; nothing is written to disk'],
  };
}
