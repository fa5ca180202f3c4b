/** Measures the memory for the content that needs the most for its size. `npm run test:memory` measures every kind. */
import { FunctionMemory } from '../helpers/function-memory.ts';
import { heavyLine, numberedLine } from '../helpers/heavy-lines.ts';

const MEMORY_MB = 512;
const MARGIN_MB = 60;

let functions: FunctionMemory;
beforeAll(async () => {
  functions = await FunctionMemory.start();
});
afterAll(() => functions.stop());

test('traces 70 KB of gzip among other lines within the memory of a small function', async () => {
  const lines = [0, 1, 2].map((index) => numberedLine(index, 'text', 1_000));
  const bomb = heavyLine('lists', 64_000_000, true);
  expect(bomb.length).toBeLessThan(100_000);
  const run = await functions.run('log', MEMORY_MB, [...lines.slice(0, 2), bomb, ...lines.slice(2)]);
  expect(run.counts).toMatchObject({ lines: 4, traced: 4, quarantined: 0 });
  // On a busy machine its time ends before its memory.
  expect(run.written).toMatch(/it needs more memory than a function of 512 MB has|it took longer than 5\.\d* s/);
  expect(run.peakMb).toBeLessThanOrEqual(MEMORY_MB - MARGIN_MB);
});
