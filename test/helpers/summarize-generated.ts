/**
 * Summarizes a generated run, or plans its retry, in a process of its own, and prints the memory and the time that it took.
 * Arguments: `summary` or `retry`, and the number of chunks.
 */

import { unitsOfRetry } from '../../src/monitoring/plan/retry-source.ts';
import { summarizeRun } from '../../src/monitoring/summarize-run.ts';
import { RunSums } from '../../src/quality/run-sums.ts';
import { GeneratedRun } from './generated-run.ts';

const KIB = 1024;

const [what, chunks] = process.argv.slice(2);
/** Chunks of one of four invocations. On AWS its time ends it: a function reads some hundred receipts a second. */
const chunksOfPart = Math.ceil(Number(chunks) / 3.5);
const generated = new GeneratedRun(Number(chunks));
const { storage, run } = generated;
const started = performance.now();
const result = what === 'summary' ? await summary() : await retry();
const seconds = Math.round((performance.now() - started) / 100) / 10;
const peakMb = Math.round(process.resourceUsage().maxRSS / KIB);
process.stdout.write(`${JSON.stringify({ ...result, peakMb, seconds, reads: generated.reads })}\n`);

async function summary(): Promise<object> {
  for (let part = 0; ; part += 1) {
    const sums = new RunSums();
    let left = chunksOfPart;
    const remainingMs = (): number => (--left > 0 ? 900_000 : 0);
    const made = await summarizeRun({ storage, workBucket: 'work' }, run, undefined, { part, remainingMs }, sums);
    if (made.status === 'unfinished') continue;
    const captures = Object.values(sums.variants).map((cell) => cell.captures);
    return { parts: part + 1, summary: made, counted: { first: sums.first, captures }, expected: generated.expected() };
  }
}

async function retry(): Promise<object> {
  const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
  const input = { retry: { run: run.name, what: 'failed' as const } };
  let retried = 0;
  let seen = 0;
  const remainingMs = () => 900_000;
  for await (const unit of unitsOfRetry({ storage, workBucket: 'work' }, input, options, undefined, remainingMs)) {
    if (!unit.passedOver) retried += 1;
    seen = Number(unit.cursor);
  }
  return { retried, seen };
}
