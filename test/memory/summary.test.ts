/**
 * The memory of SummarizeRun, and of the planning of a retry, for a run of a million chunks. The heap is a sixth of what V8 has
 * in a function of 1,024 MB. Prints the memory and the time; the receipts are generated, so S3 takes none of it.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { packagePath } from '../../src/core/process/package-folder.ts';

const CHUNKS = 1_000_000;
/** The resident memory that Lambda counts. Node itself takes about 60 MB of it. */
const MOST_MB = 256;

jest.setTimeout(900_000);

async function inProcess(what: 'summary' | 'retry') {
  const flags = ['--import', packagePath('bin/ready.js'), '--max-semi-space-size=1', '--max-old-space-size=128'];
  const script = packagePath('test/helpers/summarize-generated.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, script, what, String(CHUNKS)]);
  const result = JSON.parse(stdout);
  process.stdout.write(
    `${what} of ${CHUNKS} chunks | ${result.peakMb} MB | ${result.seconds} s | ${result.reads} reads\n`,
  );
  return result;
}

test('a summary of a million chunks, in four invocations', async () => {
  const { summary, expected, counted, parts, peakMb } = await inProcess('summary');
  expect(summary).toMatchObject(expected);
  expect(parts).toBe(4);
  // Of two variants. A chunk in a thousand has failed.
  const captures = 20 * (CHUNKS - CHUNKS / 1_000);
  expect(counted).toEqual({ first: '2026-01-01T00', captures: [captures, captures] });
  expect(peakMb).toBeLessThanOrEqual(MOST_MB);
});

test('the plan of a retry of a million chunks', async () => {
  const { retried, seen, peakMb } = await inProcess('retry');
  expect([retried, seen]).toEqual([CHUNKS / 1_000, CHUNKS]);
  expect(peakMb).toBeLessThanOrEqual(MOST_MB);
});
