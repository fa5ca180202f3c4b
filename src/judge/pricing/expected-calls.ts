/** The calls that judging a capture is expected to take with some settings, and what they cost. */

import type { Capture } from '../../captures/types.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { askedFirst } from '../cascade.ts';
import { firstModel } from '../judge-id.ts';
import { memoByScorer } from '../memo.ts';
import { answerBounds, readParameters } from '../transports/parameters.ts';
import type { JudgeScorer } from '../types.ts';
import { type AskSize, askSize, FAILING_SHARE } from './ask-size.ts';
import { priceCall, priceOptions } from './prices.ts';
import { cacheMinimum } from './prompt-cache.ts';

export type PricedSettings = Pick<
  LambdaEnvironment,
  'BEDROCK_MODEL_ID' | 'JUDGE_CALLS' | 'JUDGE_PRICES' | 'MLFLOW_EVALUATION_MODEL_PARAM'
> &
  Partial<Pick<LambdaEnvironment, 'JUDGE_CASCADE' | 'JUDGE_PREFIX'>>;

/** Expected figures for a capture; averages, so they are no whole numbers. */
export interface Expected {
  calls: number;
  inputTokens: number;
  outputTokens: number;
  /** Input tokens that are read from the prompt cache. */
  cachedTokens: number;
  /** US dollars; `null` if a price is unknown. */
  usd: number | null;
}

interface Way {
  judge?: RunOptions['judge'];
  /** Whether a prefix that is long enough is read from the cache. Default: if `JUDGE_PREFIX` is `cached`. */
  cacheHits?: boolean;
  /** Share of the captures with a verdict that fails. Default: as if each verdict failed by itself, which is the most. */
  failingCaptures?: number;
}

/**
 * Expects a capture to be judged by one call, or by one for each scorer. In a cascade the judge is asked about the captures
 * with a verdict that fails, at the full price even if the first model is asked in batch inference.
 */
export function expectedCalls(
  settings: PricedSettings,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  way: Way = {},
): Expected {
  const { JUDGE_CALLS: calls, JUDGE_CASCADE, BEDROCK_MODEL_ID: main } = settings;
  const sized = (asked: readonly JudgeScorer[], parameters: Record<string, unknown>): AskSize =>
    askSize(capture, asked, { calls, ...answerBounds(readParameters(parameters)) });
  const { judge: judging = 'converse' } = way;
  const priced = (model: string, size: AskSize, judge: RunOptions['judge']): Expected => {
    const { cacheHits = settings.JUDGE_PREFIX === 'cached' && calls !== 'separate' } = way;
    const isCached = cacheHits && judge !== 'batch' && size.prefixTokens >= (cacheMinimum(model) ?? Infinity);
    const cacheReadInputTokens = isCached ? size.prefixTokens : 0;
    const { inputTokens, outputTokens } = size;
    const usage = { inputTokens: inputTokens - cacheReadInputTokens, outputTokens, cacheReadInputTokens };
    const usd = priceCall(model, usage, priceOptions(settings, judge));
    return { calls: size.calls, inputTokens, outputTokens, cachedTokens: cacheReadInputTokens, usd };
  };
  if (JUDGE_CASCADE === undefined) return priced(main, sized(scorers, settings.MLFLOW_EVALUATION_MODEL_PARAM), judging);
  const first = priced(firstModel(settings), sized(scorers.map(askedFirst), {}), judging);
  const { failingCaptures: share = 1 - (1 - FAILING_SHARE) ** scorers.length } = way;
  const asked = Math.min(scorers.length, Math.max(1, (FAILING_SHARE * scorers.length) / share));
  const fewer = Math.floor(asked);
  const again = (count: number): Expected => {
    const open = scorers.slice(0, count).map(withWords);
    return priced(main, sized(open, settings.MLFLOW_EVALUATION_MODEL_PARAM), 'converse');
  };
  // Between two whole numbers of scorers, the average of both.
  const some = added(first, again(fewer), share * (fewer + 1 - asked));
  return asked === fewer ? some : added(some, again(fewer + 1), share * (asked - fewer));
}

/** What fails has words. */
const withWords = memoByScorer((scorer) => ({ ...scorer, isTerse: false }));

const added = (total: Expected, more: Expected, times: number): Expected => ({
  calls: total.calls + times * more.calls,
  inputTokens: total.inputTokens + times * more.inputTokens,
  outputTokens: total.outputTokens + times * more.outputTokens,
  cachedTokens: total.cachedTokens + times * more.cachedTokens,
  usd: total.usd === null || more.usd === null ? null : total.usd + times * more.usd,
});
