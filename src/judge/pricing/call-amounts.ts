/**
 * What calls cost, and dividing it over the scorers they were made for so that the parts sum to the whole. Money is
 * counted in whole millionths of a millionth of a dollar: sums of those have no rounding.
 */
import type { CallUsage } from '../model-answer.ts';
import type { VerdictUsage } from '../types.ts';

/** The smallest price of a token is some ten thousand of these; 9,000 dollars of them are a safe integer. */
const UNITS_PER_USD = 1e12;

export interface Amount {
  inputTokens: number;
  outputTokens: number;
  /** `null`: the price is not known. */
  units: number | null;
}

/** US dollars of a call; `null` when the model's price is not known. */
export type PriceOfCall = (usage: CallUsage) => number | null;

export const noAmount = (): Amount => ({ inputTokens: 0, outputTokens: 0, units: 0 });

export const addAmounts = (a: Amount, b: Amount): Amount => ({
  inputTokens: a.inputTokens + b.inputTokens,
  outputTokens: a.outputTokens + b.outputTokens,
  units: a.units === null || b.units === null ? null : a.units + b.units,
});

export const verdictUsage = ({ inputTokens, outputTokens, units }: Amount): VerdictUsage => ({
  inputTokens,
  outputTokens,
  usd: units === null ? null : units / UNITS_PER_USD,
});

const toUnits = (usd: number | null): number | null => (usd === null ? null : Math.round(usd * UNITS_PER_USD));

/** All tokens of the input, cached or not: what MLflow's own judges report as input tokens. */
export const allInputTokens = (usage: CallUsage): number =>
  usage.inputTokens + (usage.cacheReadInputTokens ?? 0) + (usage.cacheWriteInputTokens ?? 0);

/** A report of more than this many times what was reserved for the call is no count of its tokens. */
const ABSURD_TIMES = 10;

/**
 * What a call is booked at: what it reports, or what was reserved for it where its report cannot be (parts of tokens, less
 * than none, more from the cache than there were, an empty prompt, absurdly many). So no report fills a budget up.
 */
export function believed(usage: CallUsage, reserved: CallUsage): CallUsage {
  const { inputTokens, outputTokens, cacheReadInputTokens = 0, cacheWriteInputTokens = 0 } = usage;
  const counts = [inputTokens, outputTokens, cacheReadInputTokens, cacheWriteInputTokens];
  const input = allInputTokens(usage);
  const isPossible =
    counts.every((count) => Number.isSafeInteger(count) && count >= 0) &&
    input > 0 &&
    input <= ABSURD_TIMES * reserved.inputTokens &&
    outputTokens <= ABSURD_TIMES * reserved.outputTokens;
  return isPossible ? usage : { ...reserved, ...(usage.batch === undefined ? {} : { batch: usage.batch }) };
}

/** A whole number divided by weights: what rounding leaves goes to the largest remainders, so nothing is lost. */
export function divideWhole(total: number, weights: readonly number[]): number[] {
  const sum = weights.reduce((a, b) => a + b, 0);
  const exact = weights.map((weight) => (sum === 0 ? total / weights.length : (total * weight) / sum));
  const parts = exact.map(Math.floor);
  let left = total - parts.reduce((a, b) => a + b, 0);
  const byRemainder = exact
    .map((value, index) => ({ index, rest: value - Math.floor(value) }))
    .sort((a, b) => b.rest - a.rest || a.index - b.index);
  for (const { index } of byRemainder) {
    if (left <= 0) break;
    parts[index] = (parts[index] ?? 0) + 1;
    left -= 1;
  }
  return parts;
}

const NO_INPUT = { inputTokens: 0, cacheReadInputTokens: 0, cacheWriteInputTokens: 0 };

/**
 * A call's amount by scorer: the input, with its money, in equal parts (the exchange was sent for all of them), the
 * output, with its money, by the length of each answer.
 * @param answerChars characters of each scorer's answer, 0 where there was none
 */
export function divideCall(usage: CallUsage, price: PriceOfCall, answerChars: readonly number[]): Amount[] {
  const equal = answerChars.map(() => 1);
  const byLength = answerChars.some((chars) => chars > 0) ? answerChars : equal;
  const input = divideWhole(allInputTokens(usage), equal);
  const output = divideWhole(usage.outputTokens, byLength);
  const total = toUnits(price(usage));
  const ofOutput = toUnits(price({ ...usage, ...NO_INPUT }));
  const money =
    total === null || ofOutput === null
      ? undefined
      : {
          input: divideWhole(Math.max(0, total - ofOutput), equal),
          output: divideWhole(Math.min(total, ofOutput), byLength),
        };
  return answerChars.map((_, index) => ({
    inputTokens: input[index] ?? 0,
    outputTokens: output[index] ?? 0,
    units: money === undefined ? null : (money.input[index] ?? 0) + (money.output[index] ?? 0),
  }));
}
