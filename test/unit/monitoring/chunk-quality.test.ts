/** What a chunk adds to the counts, from the receipts of attempts that succeeded, failed, or did a part. */
import type { Receipt } from '../../../src/core/contract/receipts.ts';
import { qualityOfChunk } from '../../../src/monitoring/chunk-quality.ts';
import { emptyChunkState, foldReceipt } from '../../../src/monitoring/receipts.ts';

const LINES = 10;
const captures = (count: number) => ({ '2026-11-20T10': { Blue: { captures: count } } });
const attempt = (count: number, ok: boolean, more: Partial<Receipt> = {}): Receipt =>
  ({
    ...{ step: 'evaluate', run: 'r', chunk: 0, attempt: 0, requestId: 'q', startedAt: '1', endedAt: '2', ok },
    quality: captures(count),
    ...more,
  }) as Receipt;
const part = (from: number, to: number, kills = 1) => ({ part: { from, to, kills } });

test.each<[string, Receipt[], number]>([
  [
    'the last success, which knows what those before it did',
    [attempt(4, false), attempt(10, true, { attempt: 1 })],
    10,
  ],
  ['the failed attempt that knows most, if none succeeded', [attempt(4, false), attempt(0, false, { attempt: 1 })], 4],
  ['the sum of the parts', [attempt(7, false), attempt(5, true, part(0, 5)), attempt(5, true, part(5, 10))], 10],
  [
    'the parts that are done, and what is known of the next one',
    [attempt(5, true, part(0, 5)), attempt(2, false, part(5, 10))],
    7,
  ],
  [
    'what the whole attempt knew, if its parts know less',
    [attempt(8, false), attempt(5, true, part(0, 5)), attempt(0, false, part(5, 10))],
    8,
  ],
  [
    'captures once, if both steps of a run have traced them',
    [attempt(6, false), attempt(10, true, { step: 'log' })],
    10,
  ],
])('%s', (_, receipts, expected) => {
  const state = emptyChunkState();
  for (const receipt of receipts) foldReceipt(state, receipt);
  expect(qualityOfChunk(state, LINES)).toEqual(captures(expected));
});
