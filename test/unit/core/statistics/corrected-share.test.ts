/** Tests of shares that are corrected for the judge's errors. */

import {
  correctedDifference,
  correctedShare,
  type LabeledPair,
} from '../../../../src/core/statistics/corrected-share.ts';
import { shareBounds, wilson } from '../../../../src/core/statistics/share.ts';
import { Random } from '../../../../src/core/values/random.ts';

/** Labels of equal weight. */
function pairs(
  counts: { passedGood?: number; passedBad?: number; failedGood?: number; failedBad?: number },
  weight = 1,
) {
  const some = (count = 0, passed: boolean, label: boolean): LabeledPair[] =>
    Array.from({ length: count }, () => ({ passed, label, weight }));
  const { passedGood, passedBad, failedGood, failedBad } = counts;
  return [
    ...[...some(passedGood, true, true), ...some(passedBad, true, false)],
    ...[...some(failedGood, false, true), ...some(failedBad, false, false)],
  ];
}

describe('the judge’s share', () => {
  test('has Wilson’s interval without strata', () => {
    const found = correctedShare({ strata: [{ captures: 5000, judged: 200, passed: 188 }], labels: [] });
    expect(found).toMatchObject({ n: 200, labels: 0, share: null, method: 'judge only' });
    const { value, low, high } = wilson(188, 200) ?? {};
    expect(found?.judge).toEqual({ value, low: expect.closeTo(low ?? 0, 12), high: expect.closeTo(high ?? 0, 12) });
  });

  test('gives each stratum the weight of its captures', () => {
    // All 100 errors are judged, and each twentieth of the other replies.
    const whole = { captures: 100, judged: 100, passed: 10 };
    const found = correctedShare({ strata: [whole, { captures: 1900, judged: 95, passed: 90 }], labels: [] });
    expect(found?.judge.value).toBeCloseTo((10 + 1900 * (90 / 95)) / 2000, 12);
    // Only the sampled stratum has a spread that counts: about that of its 95 captures.
    const alone = wilson(90, 95);
    const width = (found?.judge.high ?? 0) - (found?.judge.low ?? 0);
    expect(width).toBeGreaterThan(0.8 * ((alone?.high ?? 0) - (alone?.low ?? 0)));
    expect(width).toBeLessThan(1.2 * ((alone?.high ?? 0) - (alone?.low ?? 0)));
  });

  test('is unknown without judged captures', () => {
    expect(correctedShare({ strata: [{ captures: 10, judged: 0, passed: 0 }], labels: [] })).toBeNull();
    expect(correctedShare({ strata: [], labels: [] })).toBeNull();
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

describe('the share that people would pass', () => {
  const strata = [{ captures: 2000, judged: 2000, passed: 1600 }];

  test('is that of the labels of each verdict, in the proportions of all verdicts', () => {
    // PPI++ at λ = 36/40 − 15/60: mean label + λ · (0.8 − the share of passing verdicts among the labels).
    const labels = pairs({ passedGood: 36, passedBad: 4, failedGood: 15, failedBad: 45 });
    const found = correctedShare({ strata, labels });
    expect(found).toMatchObject({ n: 2000, labels: 100, method: 'prediction-powered' });
    expect(found?.share).toBeCloseTo(0.8 * 0.9 + 0.2 * 0.25, 12);
    expect(found?.share).toBeCloseTo(0.51 + (0.9 - 0.25) * (0.8 - 0.4), 12);
    // Its standard error: 0.8² · 0.9 · 0.1/40 + 0.2² · 0.25 · 0.75/60 + 0.65² · 0.8 · 0.2/2000.
    const half = 1.96 * Math.sqrt(0.00144 + 0.000125 + 0.0000338);
    expect((found?.high ?? 0) - (found?.low ?? 0)).toBeGreaterThan(1.8 * half);
    expect((found?.high ?? 0) - (found?.low ?? 0)).toBeLessThan(2.2 * half);
  });

  test('has the exact limits with fewer than 10 labels of the rarer class', () => {
    const judged = [{ captures: 1e9, judged: 1e9, passed: 1e9 }];
    const found = correctedShare({ strata: judged, labels: pairs({ passedGood: 47, passedBad: 3 }) });
    expect(found?.method).toBe('exact');
    expect(found?.low).toBeCloseTo(shareBounds(47, 50).lower(0.025), 6);
    expect(found?.high).toBeCloseTo(shareBounds(47, 50).upper(0.025), 6);
    const none = correctedShare({ strata: judged, labels: pairs({ passedGood: 50 }) });
    expect(none?.low).toBeCloseTo(shareBounds(50, 50).lower(0.025), 6);
    expect(none?.high).toBeCloseTo(1, 6);
  });

  test('is not given from a few labels, or without one of a verdict', () => {
    const none = { share: null, method: 'too few labels' };
    expect(correctedShare({ strata, labels: pairs({ passedGood: 5, failedBad: 4 }) })).toMatchObject(none);
    const oneSided = correctedShare({ strata, labels: pairs({ passedGood: 30, passedBad: 20 }) });
    expect(oneSided).toMatchObject({ share: null, method: 'too few labels' });
    // What the judge fails may be all good, or all bad.
    expect(oneSided?.low).toBeLessThan(0.6 * 0.8);
    expect(oneSided?.high).toBeGreaterThan(0.6 * 0.8 + 0.2);
    expect(correctedShare({ strata, labels: [] })).toMatchObject({ share: null, method: 'judge only' });
  });

  test('is of the captures that the labels speak for, if not of all', () => {
    const labels = pairs({ passedGood: 36, passedBad: 4, failedGood: 15, failedBad: 45 });
    const part = [{ captures: 500, judged: 500, passed: 300 }];
    const found = correctedShare({ strata, labels, covered: part });
    expect(found).toMatchObject({ n: 2000, covered: 500, judge: { value: 0.8 } });
    expect(found?.share).toBeCloseTo(0.6 * 0.9 + 0.4 * 0.25, 12);
    expect(correctedShare({ strata, labels: [], covered: part })?.covered).toBeNull();
    const difference = correctedDifference({ strata, labels }, { strata, labels, covered: part });
    expect(difference).toMatchObject({ covered: 2500, share: expect.closeTo(0.64 - 0.77, 12) });
  });

  test('counts a label for those it stands for', () => {
    const labels = [...pairs({ passedGood: 50, failedGood: 5, failedBad: 15 }), ...pairs({ passedBad: 10 }, 20)];
    expect(correctedShare({ strata, labels })?.share).toBeCloseTo(0.8 * (50 / 250) + 0.2 * 0.25, 12);
  });

  test('takes the judge’s errors from other labels where its own do not suffice', () => {
    const others = pairs({ passedGood: 180, passedBad: 10, failedGood: 20, failedBad: 90 });
    const found = correctedShare({ strata, labels: pairs({ passedGood: 3 }), others });
    expect(found?.method).toBe('plug-in');
    expect(found?.share).toBeCloseTo((0.8 + 0.9 - 1) / (183 / 203 + 0.9 - 1), 12);
    expect(found?.low).toBeLessThan(found?.share ?? 0);
    expect(found?.high).toBeLessThanOrEqual(1);
    // Own labels that suffice assume nothing of the judge.
    const own = pairs({ passedGood: 36, passedBad: 4, failedGood: 15, failedBad: 45 });
    expect(correctedShare({ strata, labels: own, others })).toEqual(correctedShare({ strata, labels: own }));
    // A coin says nothing.
    const coin = pairs({ passedGood: 50, passedBad: 50, failedGood: 50, failedBad: 50 });
    expect(correctedShare({ strata, labels: [], others: coin })?.method).toBe('judge only');
  });

  test('has the standard error of its parts, those of the verdicts included', () => {
    const half = (found: ReturnType<typeof correctedShare>): number =>
      ((found?.high ?? 0) - (found?.low ?? 0)) / 2 / 1.96;
    const few = [{ captures: 300, judged: 300, passed: 180 }];
    const labels = pairs({ passedGood: 4500, passedBad: 500, failedGood: 500, failedBad: 4500 });
    // The labels are certain: 0.8 · √(0.6 · 0.4/300).
    expect(half(correctedShare({ strata: few, labels }))).toBeCloseTo(0.8 * Math.sqrt((0.6 * 0.4) / 300), 3);
    // By plug-in, with TPR and TNR of 0.9: √(0.6 · 0.4/300)/0.8.
    const plugIn = correctedShare({ strata: few, labels: [], others: labels });
    expect(plugIn?.share).toBeCloseTo(0.625, 12);
    expect(half(plugIn)).toBeCloseTo(Math.sqrt((0.6 * 0.4) / 300) / 0.8, 2);
    // With many verdicts, TPR and TNR make the error: √((0.625² + 0.375²) · 0.09/100)/0.8.
    const many = [{ captures: 1e7, judged: 1e7, passed: 6e6 }];
    const rough = pairs({ passedGood: 90, passedBad: 10, failedGood: 10, failedBad: 90 });
    const found = half(correctedShare({ strata: many, labels: [], others: rough }));
    expect(found).toBeCloseTo(Math.sqrt((0.625 ** 2 + 0.375 ** 2) * 0.0009) / 0.8, 2);
  });

  test('is in its interval in 95 of 100 samples, whichever verdicts were labelled more often', () => {
    const random = new Random(3);
    const samples = 1500;
    let covered = 0;
    for (let sample = 0; sample < samples; sample++) {
      // A rate of 0.9 by people; the judge's TPR is 0.9 and its TNR 0.8.
      const [passedGood, passedBad] = [random.binomial(1800, 0.9), random.binomial(200, 0.2)];
      const good = random.binomial(60, passedGood / (passedGood + passedBad));
      const failedGood = random.binomial(60, (1800 - passedGood) / (2000 - passedGood - passedBad));
      const passed = pairs({ passedGood: good, passedBad: 60 - good }, 28);
      const labels = [...passed, ...pairs({ failedGood, failedBad: 60 - failedGood }, 5)];
      const found = correctedShare({
        strata: [{ captures: 2000, judged: 2000, passed: passedGood + passedBad }],
        labels,
      });
      if ((found?.low ?? 1) <= 0.9 && 0.9 <= (found?.high ?? 0)) covered++;
    }
    expect(covered / samples).toBeGreaterThan(0.93);
    expect(covered / samples).toBeLessThan(0.985);
  });

  test('has a difference only where both shares are known', () => {
    const labels = pairs({ passedGood: 36, passedBad: 4, failedGood: 15, failedBad: 45 });
    const worse = { strata: [{ captures: 2000, judged: 2000, passed: 1200 }], labels };
    const change = correctedDifference({ strata, labels }, worse);
    expect(change?.share).toBeCloseTo(-0.2 * 0.65, 12);
    expect(change?.method).toBe('prediction-powered');
    expect(change?.low).toBeLessThan(-0.13);
    expect(change?.high).toBeLessThan(0.1);
    expect(correctedDifference({ strata, labels: [] }, worse)).toMatchObject({ share: null, method: 'judge only' });
  });
});
