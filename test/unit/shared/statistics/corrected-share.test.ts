/** Tests of shares that are corrected for the judge's errors. */
import { correctedDifference, correctedShare } from '../../../../src/shared/statistics/corrected-share.ts';
import { wilson } from '../../../../src/shared/statistics/share.ts';

describe('the judge’s share', () => {
  test('has Wilson’s interval without strata', () => {
    const found = correctedShare([{ captures: 5000, judged: 200, passed: 188 }], []);
    expect(found).toMatchObject({ n: 200, labels: 0, share: null, method: 'judge only' });
    const { value, low, high } = wilson(188, 200) ?? {};
    expect(found?.judge).toEqual({ value, low: expect.closeTo(low ?? 0, 12), high: expect.closeTo(high ?? 0, 12) });
  });

  test('gives each stratum the weight of its captures', () => {
    // All 100 errors are judged, and each twentieth of the other replies.
    const found = correctedShare(
      [
        { captures: 100, judged: 100, passed: 10 },
        { captures: 1900, judged: 95, passed: 90 },
      ],
      [],
    );
    expect(found?.judge.value).toBeCloseTo((10 + 1900 * (90 / 95)) / 2000, 12);
    // Only the sampled stratum has a spread that counts: about that of its 95 captures.
    const alone = wilson(90, 95);
    const width = (found?.judge.high ?? 0) - (found?.judge.low ?? 0);
    expect(width).toBeGreaterThan(0.8 * ((alone?.high ?? 0) - (alone?.low ?? 0)));
    expect(width).toBeLessThan(1.2 * ((alone?.high ?? 0) - (alone?.low ?? 0)));
  });

  test('is unknown without judged captures', () => {
    expect(correctedShare([{ captures: 10, judged: 0, passed: 0 }], [])).toBeNull();
    expect(correctedShare([], [])).toBeNull();
  });
});

test('the difference of two judges’ shares is positive for a rise', () => {
  const before = { strata: [{ captures: 500, judged: 500, passed: 400 }], labels: [] };
  const after = { strata: [{ captures: 500, judged: 500, passed: 450 }], labels: [] };
  const rise = correctedDifference(before, after);
  expect(rise?.judge.value).toBeCloseTo(0.1, 12);
  // Newcombe's interval: 0.0557 to 0.1441, computed by hand from Wilson's intervals of 400 and 450 in 500.
  expect(rise?.low).toBeCloseTo(0.0557, 3);
  expect(rise?.high).toBeCloseTo(0.1441, 3);
  expect(correctedDifference(before, { strata: [], labels: [] })).toBeNull();
});
