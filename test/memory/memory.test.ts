/**
 * The memory of the deployed functions with the heaviest lines and chunks. It must stay below the function’s memory, less
 * 60 MB for Lambda’s own processes, and every line must be processed. `MEMORY_MB=512` and `MEMORY_LINES=CSV` (a part of a
 * name) select tests. Each test prints its memory.
 */
import { FunctionMemory, type MemoryRun, type Step } from '../helpers/function-memory.ts';
import { heavyLine, KINDS, type Kind, numberedLine, ODD_LINES } from '../helpers/heavy-lines.ts';

jest.setTimeout(600_000);

const MARGIN_MB = 60;
const MB = 1_000_000;
const LINE_BYTES = 40 * MB;
/** A gzip body is unpacked up to 64 MiB. */
const UNPACKED_BYTES = 66 * MB;

const sizes = process.env.MEMORY_MB?.split(',').map(Number) ?? [512, 1024, 3008];
const chosen = (name: string): boolean => name.includes(process.env.MEMORY_LINES ?? '');

const chunk = (lines: number, kind: Kind, bytes: number, packed = false): string[] =>
  Array.from({ length: lines }, (_, index) => numberedLine(index, kind, bytes, packed));

const CASES: [string, () => string[]][] = [
  ...KINDS.map((kind): [string, () => string[]] => [`40 MB of ${kind}`, () => [heavyLine(kind, LINE_BYTES)]]),
  ...Object.entries(ODD_LINES).map(([name, line]): [string, () => string[]] => [
    `40 MB of ${name}`,
    () => [line(LINE_BYTES)],
  ]),
  ...(['lists', 'CSV of short rows', 'digits', 'text', 'JSON lines'] as const).map((kind): [string, () => string[]] => [
    `64 MB of ${kind} as gzip`,
    () => [heavyLine(kind, UNPACKED_BYTES, true)],
  ]),
  ['138 lines of 10,000 rows of CSV a side', () => chunk(138, 'CSV of short rows', 53_000)],
  ['16 lines of 0.5 MB of lists', () => chunk(16, 'lists', 500_000)],
  ['500 lines of 11 MB of lists as gzip', () => chunk(500, 'lists', 11 * MB, true)],
  ['500 lines of 0.5 MB of lists as gzip', () => chunk(500, 'lists', MB / 2, true)],
  ['500 lines of 2 MB of text as gzip', () => chunk(500, 'text', 2 * MB, true)],
  ['500 lines of 16 KB of messages', () => chunk(500, 'messages', 16_000)],
];

let functions: FunctionMemory;
beforeAll(async () => {
  functions = await FunctionMemory.start();
});
afterAll(() => functions.stop());

describe.each(sizes)('in a function of %i MB', (memoryMb) => {
  describe.each<Step>(['log', 'evaluate'])('the %s step', (step) => {
    test.each(CASES.filter(([name]) => chosen(name)))('stays within its memory with %s', async (name, lines) => {
      const given = lines();
      const run = await functions.run(step, memoryMb, given);
      const row = [memoryMb, step, name, `${run.peakMb} MB`, `${run.childMb} MB of it in children`, `${run.seconds} s`];
      process.stdout.write(`${[...row, endOf(run)].join(' | ')}\n`);
      expect(run.counts).toBeDefined();
      expect(run.peakMb).toBeLessThanOrEqual(memoryMb - MARGIN_MB);
      if (step === 'log') expect(run.counts).toMatchObject({ lines: given.length });
    });
  });
});

const endOf = ({ counts, quarantined, written }: MemoryRun): string => {
  if (counts === undefined) return 'killed';
  const kept = written.split('it needs more memory than a function').length - 1;
  return [`traced ${counts.traced ?? '-'}`, `kept as captured ${kept}`, ...new Set(quarantined)].join(', ');
};
