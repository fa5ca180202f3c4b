/** The limits on decoded captures in memory. */

import { weightAtOnce } from '../../../src/core/process/memory.ts';
import type { CaptureLine } from '../../../src/monitoring/chunk/decode-lines.ts';
import { HeldCaptures, WeightGate } from '../../../src/monitoring/evaluate/held-captures.ts';
import { textCapture } from '../../helpers/captures.ts';
import { lineOf } from '../captures/arbitraries.ts';

test('decodes captures again if there is no room to keep them', () => {
  const held = new HeldCaptures();
  let decodings = 0;
  const line = (weight: number): CaptureLine => {
    const capture = textCapture('question', String(weight));
    const again = () => {
      decodings += 1;
      return { kind: 'capture' as const, capture, weight };
    };
    return { kind: 'capture', raw: lineOf({}), capture, traceId: 't', duplicate: false, weight, again };
  };
  const reads = [0.6, 0.6, 0.4].map((share) => held.hold(line(share * weightAtOnce())));
  const [first, second, third] = reads.map((read) => read());
  expect(decodings).toBe(1);
  expect([first, second, third].map((capture) => capture?.response?.text)).toEqual(
    [0.6, 0.6, 0.4].map((share) => String(share * weightAtOnce())),
  );
});

test('starts work when there is room for it, and runs work that exceeds the limit alone', async () => {
  const gate = new WeightGate();
  const inside = new Set<number>();
  const seen: number[] = [];
  const work = async (share: number) =>
    gate.pass(share * weightAtOnce(), async () => {
      inside.add(share);
      seen.push([...inside].reduce((sum, each) => sum + each, 0));
      await new Promise(setImmediate);
      inside.delete(share);
    });
  await Promise.all([work(0.5), work(0.4), work(0.3), work(7), work(0.2)]);
  expect(seen).toHaveLength(5);
  expect(seen.filter((sum) => sum > 1)).toEqual([7]);
});
