/** Dividing the tokens and cost of a call among its scorers. */
import fc from 'fast-check';
import { divideCall } from '../../../src/judge/pricing/call-amounts.ts';
import { sumUsage } from '../../../src/judge/spend.ts';

test('divides a call so that tokens and money sum to the whole', () => {
  const tokens = fc.nat(200_000);
  fc.assert(
    fc.property(
      tokens,
      tokens,
      tokens,
      fc.array(fc.nat(2000), { minLength: 1, maxLength: 15 }),
      fc.double({ min: 0, max: 1e-4, noNaN: true }),
      (inputTokens, outputTokens, cacheReadInputTokens, chars, rate) => {
        const price = (usage: { inputTokens: number; outputTokens: number; cacheReadInputTokens?: number }) =>
          usage.inputTokens * rate + usage.outputTokens * 5 * rate + (usage.cacheReadInputTokens ?? 0) * 0.1 * rate;
        const usage = { inputTokens, outputTokens, cacheReadInputTokens };
        const parts = divideCall(usage, price, chars);
        const total = parts.reduce(sumUsage);
        expect(total.inputTokens).toBe(inputTokens + cacheReadInputTokens);
        expect(total.outputTokens).toBe(outputTokens);
        expect(total.usd).toBe(Math.round(price(usage) * 1e12) / 1e12);
        for (const part of parts) for (const count of Object.values(part)) expect(count).toBeGreaterThanOrEqual(0);
      },
    ),
  );
});

test('assigns more output to the longer answer, and equal parts of the input', () => {
  const price = ({ inputTokens, outputTokens }: { inputTokens: number; outputTokens: number }) =>
    inputTokens * 1e-6 + outputTokens * 5e-6;
  const [short, long] = divideCall({ inputTokens: 100, outputTokens: 40 }, price, [10, 30]);
  expect(short).toEqual({ inputTokens: 50, outputTokens: 10, usd: 0.0001 });
  expect(long).toEqual({ inputTokens: 50, outputTokens: 30, usd: 0.0002 });
  // The first ones, and the largest remainders, get the rest.
  const parts = divideCall({ inputTokens: 10, outputTokens: 10 }, price, [1, 2, 4]);
  expect(parts.map(({ inputTokens, outputTokens }) => `${inputTokens} ${outputTokens}`)).toEqual(['4 1', '3 3', '3 6']);
  expect(divideCall({ inputTokens: 0, outputTokens: 10 }, price, [0, 0])[1]).toMatchObject({ outputTokens: 5 });
});

test('keeps an unknown price unknown', () => {
  const [part] = divideCall({ inputTokens: 10, outputTokens: 5 }, () => null, [1]);
  expect(part).toEqual({ inputTokens: 10, outputTokens: 5, usd: null });
  const known = { inputTokens: 1, outputTokens: 1, usd: 5 };
  expect(sumUsage(known, { ...known, usd: null }).usd).toBeNull();
});
