/** The summary of a run in parts, and the memory that it takes. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { CONTRACT } from '../../../src/core/contract/contract.ts';
import type { ManifestLine } from '../../../src/core/contract/payloads.ts';
import type { Receipt } from '../../../src/core/contract/receipts.ts';
import { NO_LOG_COUNTS, NO_VERDICT_COUNTS } from '../../../src/core/contract/receipts.ts';
import { workKeys } from '../../../src/core/contract/work-keys.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { emptySpend } from '../../../src/judge/spend.ts';
import { unitsOfRetry } from '../../../src/monitoring/plan/retry-source.ts';
import { summarizeRun } from '../../../src/monitoring/summarize-run.ts';
import { addTree } from '../../../src/quality/count-tree.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { GeneratedRun } from '../../helpers/generated-run.ts';
import { putPlan } from '../../helpers/planned-run.ts';

const RUN = 'run';
const run = { name: RUN, startTime: '2026-11-20T10:00:00Z' };
const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
const SCORERS = 3;
const common = { run: RUN, attempt: 0, requestId: 'q', startedAt: '1', endedAt: '2', ok: true };

/** A range of a file with this many lines. */
const range = (file: string, lines: number) => ({
  ...{ bucket: 'captures', key: `e/${file}.jsonl`, etag: file, objectTimeMs: 0 },
  ...{ start: 0, end: lines * 10, firstLine: 1, lines },
});

/** What was counted for a range: quarantined lines, and failed verdicts. */
interface Outcome {
  quarantined?: number;
  failed?: number;
}

/** A finished run in memory. A chunk without outcomes left no receipt. */
class FinishedRun {
  readonly memory = new MemoryStorage();
  readonly #lines: ManifestLine[] = [];

  constructor(chunks: { ranges: ManifestLine['ranges']; outcomes?: Outcome[] }[]) {
    for (const { ranges, outcomes } of chunks) this.#add(ranges, outcomes);
    const half = Math.ceil(this.#lines.length / 2);
    const parts = [this.#lines.slice(0, half), this.#lines.slice(half)];
    putPlan(this.memory, RUN, parts, { scorers: SCORERS, options });
  }

  #add(ranges: ManifestLine['ranges'], outcomes: Outcome[] | undefined): void {
    const chunk = this.#lines.length;
    const lines = ranges.reduce((sum, one) => sum + one.lines, 0);
    this.#lines.push({ contract: CONTRACT, chunk, experimentId: '7', lines, ranges });
    if (outcomes === undefined) return;
    const counts = outcomes.map(({ quarantined = 0, failed = 0 }, index) => {
      const traced = (ranges[index]?.lines ?? 0) - quarantined;
      const log = { ...NO_LOG_COUNTS, lines: traced + quarantined, traced, written: traced, quarantined };
      const verdicts = { ...NO_VERDICT_COUNTS, newVerdicts: traced * SCORERS - failed, failed };
      return { log, verdicts };
    });
    const all = { log: { ...NO_LOG_COUNTS }, verdicts: { ...NO_VERDICT_COUNTS } };
    for (const one of counts) addTree(all, one);
    const log = { step: 'log', ...common, chunk, counts: all.log, quarantineReasons: {} };
    const receipt: object = {
      ...{ step: 'evaluate', ...common, chunk, scorers: SCORERS, failedRecorded: 0, evaluatedTraces: 1 },
      ...{ reasons: chunk === 0 ? {} : { constructor: 1 }, counts: all.verdicts, verdicts: { safety: { yes: 1 } } },
      ...{ spend: { calls: 1, inputTokens: 2, outputTokens: 3, usd: 0.5 }, log },
    };
    this.memory.put(workKeys.receipt(RUN, chunk, 'evaluate', 0, 'q'), receipt);
  }

  /** Summarizes in parts of this number of chunks. */
  async summarize(chunksOfPart = Number.POSITIVE_INFINITY) {
    for (let part = 0; part < 10; part += 1) {
      let left = chunksOfPart;
      const remainingMs = (): number => (--left > 0 ? 900_000 : 1_000);
      const summary = await summarizeRun({ storage: this.memory.storage, workBucket: 'work' }, run, undefined, {
        part,
        remainingMs,
      });
      if (summary.status === 'unfinished') continue;
      const { endedAt: _, ...rest } = summary;
      return { summary: JSON.parse(JSON.stringify(rest)), parts: part + 1 };
    }
    throw new Error('The summary does not advance');
  }
}

const [a, b, c] = ['a', 'b', 'c'];
/** Files a, b and c; a’s end shares a chunk with b and c, behind a chunk that only c has; the last chunk left no receipt. */
const CHUNKS = [
  { ranges: [range(a, 10)], outcomes: [{ quarantined: 1 }] },
  { ranges: [range(c, 8)], outcomes: [{ failed: 2 }] },
  { ranges: [range(a, 3), range(b, 2), range(c, 1)], outcomes: [{}, { quarantined: 2 }, { failed: 1 }] },
  { ranges: [range(c, 5)] },
];

test('adds up the lines and verdicts of all chunks, and both equations hold', async () => {
  const { summary } = await new FinishedRun(CHUNKS).summarize();
  expect(summary).toMatchObject({ lines: { planned: 29, traced: 21, quarantined: 3, lost: 5 }, status: 'failed' });
  expect(summary.verdicts).toMatchObject({ expected: 63, newVerdicts: 60, failed: 3, lost: 0 });
});

test('of a run that goes on, only chunks that are done count', async () => {
  const { memory } = new FinishedRun(CHUNKS);
  const work = { storage: memory.storage, workBucket: 'work' };
  const { lines, status } = await summarizeRun(work, run, undefined, { isRunning: true });
  expect({ lines, status }).toMatchObject({ lines: { planned: 29, traced: 21, lost: 0 }, status: 'unfinished' });
});

test.each([1, 2, 3])('is the same in parts of %i chunks as in one', async (chunksOfPart) => {
  const whole = await new FinishedRun(CHUNKS).summarize();
  const finished = new FinishedRun(CHUNKS);
  const { summary, parts } = await finished.summarize(chunksOfPart);
  expect(parts).toBe(Math.floor(CHUNKS.length / chunksOfPart) + 1);
  expect(summary).toEqual(whole.summary);
  // A repeated last part changes nothing.
  const { storage } = finished.memory;
  const again = await summarizeRun({ storage, workBucket: 'work' }, run, undefined, {
    part: parts - 1,
    remainingMs: () => 900_000,
  });
  expect(again).toMatchObject({ lines: whole.summary.lines, spend: whole.summary.spend });
});

const captures = (count: number) => ({ '2026-11-20T10': { Blue: { captures: count } } });
const logged = { counts: NO_LOG_COUNTS, quarantineReasons: {} };
const attempt = (count: number, ok: boolean, more: Partial<Receipt> = {}): Receipt =>
  ({
    ...{ ...common, step: 'evaluate', chunk: 0, ok, quality: captures(count), spend: emptySpend() },
    ...{ ...logged, log: { ...logged, step: 'log', ok } },
    ...more,
  }) as Receipt;

test.each<[string, Receipt[], number]>([
  [
    'what the last success knows, with what those before it did',
    [attempt(4, false), attempt(10, true, { attempt: 1 })],
    10,
  ],
  [
    'what the attempt knows that failed with most, if none succeeded',
    [attempt(4, false), attempt(0, false, { attempt: 1 })],
    4,
  ],
  [
    'captures once, if both steps of a run have traced them',
    [attempt(6, false), attempt(10, true, { step: 'log' })],
    10,
  ],
])('a chunk adds to the counts %s', async (_, receipts, expected) => {
  const memory = new MemoryStorage();
  putPlan(memory, RUN, [[{ chunk: 0, lines: 0, ranges: [{}] }]], { options: { ...options, evaluate: false } });
  for (const [n, receipt] of receipts.entries()) memory.put(workKeys.receipt(RUN, 0, receipt.step, n, 'q'), receipt);
  const sums = new RunSums();
  await summarizeRun({ storage: memory.storage, workBucket: 'work' }, run, undefined, {}, sums);
  expect(sums.variants).toEqual({ Blue: { captures: expected } });
});

test('a retry of a large run may stop where nothing is to be retried, and continues behind it', async () => {
  const generated = new GeneratedRun(5_500);
  const input = { retry: { run: RUN, what: 'failed' as const } };
  const work = { storage: generated.storage, workBucket: 'work' };
  const remainingMs = () => 900_000;
  const seen: string[] = [];
  for await (const unit of unitsOfRetry(work, input, options, '1000', remainingMs)) {
    seen.push(`${unit.cursor} ${unit.chunk?.ranges.length ?? 'passed over'}`);
  }
  expect(seen).toEqual(['2000 1', '3000 1', '4000 1', '5000 1']);
  expect(generated.reads).toBeLessThan(2 * 4_500 + 10);
  const held = { retry: { run: RUN, what: 'held' as const } };
  const passed: number[] = [];
  for await (const unit of unitsOfRetry(work, held, options, undefined, remainingMs)) {
    expect(unit.passedOver).toBe(true);
    passed.push(Number(unit.cursor));
  }
  expect(passed).toEqual([1_000, 2_000, 3_000, 4_000, 5_000]);
});

test('the memory for a run of 30,000 chunks is that for a small one: 40 MB of heap', async () => {
  const flags = ['--import', packagePath('bin/ready.js'), '--max-semi-space-size=1', '--max-old-space-size=40'];
  const script = packagePath('test/helpers/summarize-generated.ts');
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, script, 'summary', '30000']);
  const { summary, expected } = JSON.parse(stdout);
  expect(summary).toMatchObject(expected);
});
