/** What a chunk adds to the counts, from the receipts of attempts that succeeded or failed. */
import type { Receipt } from '../../../src/core/contract/receipts.ts';
import { chunkState } from '../../../src/monitoring/receipts.ts';
import { addWork } from '../../../src/monitoring/summarize-run.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';

const captures = (count: number) => ({ '2026-11-20T10': { Blue: { captures: count } } });
const attempt = (count: number, ok: boolean, more: Partial<Receipt> = {}): Receipt =>
  ({
    ...{ step: 'evaluate', run: 'r', chunk: 0, attempt: 0, requestId: 'q', startedAt: '1', endedAt: '2', ok },
    quality: captures(count),
    log: { step: 'log', attempt: 0, ok },
    ...more,
  }) as Receipt;

test.each<[string, Receipt[], number]>([
  [
    'the last success, which knows what those before it did',
    [attempt(4, false), attempt(10, true, { attempt: 1 })],
    10,
  ],
  ['the failed attempt that knows most, if none succeeded', [attempt(4, false), attempt(0, false, { attempt: 1 })], 4],
  [
    'captures once, if both steps of a run have traced them',
    [attempt(6, false), attempt(10, true, { step: 'log' })],
    10,
  ],
])('%s', (_, receipts, expected) => {
  const state = chunkState(receipts);
  const sums = new RunSums();
  addWork(sums, state);
  expect(sums.variants).toEqual({ Blue: { captures: expected } });
});
