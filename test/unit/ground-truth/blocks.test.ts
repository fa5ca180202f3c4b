/** Blocks of predictions: everything that goes in comes out, and takes little room. */
import fc from 'fast-check';
import type { PredictionRow } from '../../../src/core/contract/ground-truth.ts';
import { decodeBlock, encodeBlock, traceKey } from '../../../src/ground-truth/index/blocks.ts';
import { textHashes } from '../../../src/ground-truth/index/texts.ts';

const decoded = (line: string, leaveOut?: (call: string) => boolean): PredictionRow[] => {
  const { ids, rowAt } = decodeBlock(line, leaveOut);
  return ids.map((id, index) => {
    expect(rowAt(index).id).toBe(id);
    return rowAt(index);
  });
};

const text = fc.string({ unit: 'binary', maxLength: 20 });
const hashes = text.map((value) => textHashes(value));
const prediction = fc.oneof(
  fc.record({
    value: fc.oneof(
      text,
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => n + 0),
      fc.boolean(),
    ),
  }),
  fc.record({
    scores: fc.array(
      fc.double({ min: 0, max: 1, noNaN: true }).map((n) => n + 0),
      { minLength: 1, maxLength: 4 },
    ),
  }),
  fc.record({
    value: text,
    scores: fc.constant<number[]>([0.5, 0.25]),
    classes: fc.array(text, { minLength: 2, maxLength: 2 }),
  }),
  fc.record({ text: hashes }),
);
const traceId = fc.oneof(
  fc.stringMatching(/^[0-9a-f]{32}$/).map((hex) => `tr-${hex}`),
  text,
);
const call = fc.record({
  id: fc.oneof(fc.uuid({ version: 4 }), text, fc.constant('__proto__')),
  endpoint: fc.constantFrom('a', 'b'),
  variant: fc.constantFrom('x', '', '__proto__'),
  second: fc.integer({ min: 0, max: 4e9 }),
  traceId,
});
const rows = fc
  .uniqueArray(
    fc.record({
      call,
      predictions: fc.array(prediction, { minLength: 1, maxLength: 4 }),
      groups: fc.option(fc.array(fc.option(text), { maxLength: 2 }), { nil: undefined }),
    }),
    { minLength: 1, maxLength: 12, selector: (one) => one.call.traceId },
  )
  .map((calls) =>
    calls.flatMap(({ call: { id, ...facts }, predictions, groups }) =>
      predictions.map((one, row) => ({
        id: predictions.length > 1 ? `${id}_${row}` : id,
        ...facts,
        ...(predictions.length > 1 && { row }),
        prediction: one,
        ...(groups && { groups }),
      })),
    ),
  );

test('every row comes back as it was', () => {
  fc.assert(
    fc.property(rows, (all) => {
      expect(decoded(encodeBlock(all))).toEqual(all);
    }),
  );
});

test('calls can be left out by their traces', () => {
  fc.assert(
    fc.property(rows, fc.nat(), (all, pick) => {
      const gone = all[pick % all.length]?.traceId as string;
      const left = decoded(encodeBlock(all), (key) => key === traceKey(gone));
      expect(left).toEqual(all.filter((row) => row.traceId !== gone));
    }),
  );
});

test('an index behind the last row is an error', () => {
  const line = encodeBlock([
    { id: 'a', endpoint: 'e', variant: 'v', second: 1, traceId: 't', prediction: { value: 1 } },
  ]);
  expect(() => decodeBlock(line).rowAt(1)).toThrow(RangeError);
});
