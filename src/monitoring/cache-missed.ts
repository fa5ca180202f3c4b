/** Checks whether a run's prompt cache was effective. */
import type { JudgeSpend } from '../core/contract/receipts.ts';

/** Fewer calls may all have met an empty cache, in the first seconds of several functions. */
const MIN_CACHE_CALLS = 20;

/** Returns whether the judge asked for its prefix to be cached, and never read it from the cache. */
export const isCacheMissed = (spend: JudgeSpend): boolean => isCacheKnown(spend) && !spend.cacheReadTokens;

/** Returns whether the run shows if the cache is of use. */
export const isCacheKnown = ({ cacheCalls = 0, cacheReadTokens = 0 }: JudgeSpend): boolean =>
  cacheCalls >= MIN_CACHE_CALLS || cacheReadTokens > 0;

/** The line of the summary. */
export const cacheMissedText = ({ cacheCalls = 0, cacheWriteTokens = 0 }: JudgeSpend): string =>
  `${cacheCalls} calls of the judge asked for its instructions to be cached, and none read them from the cache (${cacheWriteTokens} tokens were written to it): they are too short for this model, or more than five minutes lie between the calls. With JUDGE_PREFIX=short the calls cost less`;
