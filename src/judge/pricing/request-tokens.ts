/**
 * Estimates the tokens of the requests that judge a capture before they are sent: their number, for the budget and for
 * estimates, and the number that a prompt cache keeps.
 */

import type { Capture } from '../../captures/types.ts';
import type { JudgeSpend } from '../../core/contract/receipts.ts';
import type { Rates } from '../../core/settings/schema.ts';
import { answerSchemaText } from '../answer/answer-schema.ts';
import { memoByScorers } from '../memo.ts';
import { type ModelProperties, propertiesOf } from '../models/model-properties.ts';
import { MAX_RECORD_TOKENS, systemPrompt } from '../prompt/build-prompt.ts';
import { captureRecord } from '../prompt/record.ts';
import { isModelScorer, withExamples } from '../scorers/scorer-set.ts';
import { estimateTokens } from '../tokens.ts';
import type { JudgeScorer, Scorer, ScorerExample } from '../types.ts';

/**
 * Bedrock deducts the bound from the account's quota when a call starts, so the bound is close to the length of an
 * answer: two sentences of rationale are about 70 tokens, names and braces 20.
 */
const TOKENS_PER_SCORER = 130;
const TOKENS_AROUND = 100;
/** The average share of the bound that an answer takes. */
const LIKELY_SHARE = 0.6;

/** The share of the verdicts that is assumed to fail, and so to need a rationale or a second model. */
export const FAILING_SHARE = 0.1;

/**
 * Returns the bound on the answer to this number of scorers, in tokens, including tokens for thinking. The settings may
 * replace it.
 */
export const answerTokens = (
  scorers: number,
  { maxTokens, thinkingTokens = 0, properties: { tokens = 1 } = {} as never }: AskSizeOptions = {},
): number => (maxTokens ?? Math.ceil((TOKENS_AROUND + TOKENS_PER_SCORER * scorers) * tokens)) + thinkingTokens;

/** The text around the record in the user turn. */
const TOKENS_AROUND_RECORD = 40;

/** The likely length of the answer, in tokens. A terse question takes its name and a word, unless it fails. */
const likelyTokens = memoByScorers((scorers): number => {
  const withRationale = scorers.reduce(
    (sum, { isTerse, asksIfSure }) => sum + (isTerse ? (asksIfSure ? 0 : FAILING_SHARE) : 1),
    0,
  );
  const bare = scorers.filter(({ isTerse }) => isTerse).map(({ name }) => [name, 'yes']);
  const bareShare = scorers.some(({ asksIfSure }) => asksIfSure) ? 1 : 1 - FAILING_SHARE;
  const bareTokens = bare.length === 0 ? 0 : estimateTokens(JSON.stringify(Object.fromEntries(bare))) * bareShare;
  const rationaleTokens = (answerTokens(scorers.length) * LIKELY_SHARE * withRationale) / Math.max(1, scorers.length);
  return Math.round(rationaleTokens + bareTokens);
});

/** `outputTokens` is the likely number. */
export interface AskSize extends Pick<JudgeSpend, 'calls' | 'inputTokens' | 'outputTokens'> {
  /** The part of `inputTokens` that is the same for every capture and comes before the cache point. */
  prefixTokens: number;
  /** The maximum number of tokens of the answers. */
  maxOutputTokens: number;
}

interface AskSizeOptions {
  maxRecordTokens?: number | undefined;
  /** The configured bound, which replaces `answerTokens`. */
  maxTokens?: number | undefined;
  thinkingTokens?: number | undefined;
  /** Properties of the model. Default: token counts are those of `estimateTokens`. */
  properties?: Pick<ModelProperties, 'tokens'> | undefined;
}

const fixedSize = memoByScorers(
  (scorers) => prefixTokens(scorers) + estimateTokens(answerSchemaText(scorers)) + TOKENS_AROUND_RECORD,
);

/** Estimates the tokens of asking the scorers about a capture once, in one call. */
export function askSize(capture: Capture, scorers: readonly JudgeScorer[], options: AskSizeOptions = {}): AskSize {
  if (scorers.length === 0) return { calls: 0, inputTokens: 0, prefixTokens: 0, maxOutputTokens: 0, outputTokens: 0 };
  const { maxRecordTokens = MAX_RECORD_TOKENS, thinkingTokens = 0, properties } = options;
  const ofModel = (tokens: number): number => Math.ceil(tokens * (properties?.tokens ?? 1));
  const record = estimateTokens(captureRecord(capture, maxRecordTokens).text);
  return {
    calls: 1,
    inputTokens: ofModel(fixedSize(scorers) + record),
    prefixTokens: ofModel(prefixTokens(scorers)),
    maxOutputTokens: answerTokens(scorers.length, options),
    outputTokens: ofModel(likelyTokens(scorers)) + thinkingTokens,
  };
}

// --------------------------------------------------------------------------------------------------- prompt caches
// Requirements and savings of the prompt caches of Bedrock's models. A prefix that is too short is not cached, without
// an error. A longer prefix pays off only if reading it from the cache costs less than sending the short prefix.

/** OpenAI caches longer prefixes by itself. */
export const OWN_CACHE_MINIMUM = 1024;

/**
 * Returns the minimum tokens of a cached prefix. Returns `undefined` if the model is not known to cache. A shorter
 * prefix is not cached, without an error.
 */
export const cacheMinimum = (modelId: string): number | undefined =>
  modelId.startsWith('openai:/') ? OWN_CACHE_MINIMUM : propertiesOf(modelId)?.cacheMinimum;

/**
 * The tokens that certainly come before the cache point. The position of a schema in the cached prefix is not
 * documented.
 */
export const prefixTokens = memoByScorers((scorers): number => estimateTokens(systemPrompt(scorers, 'json-schema')));

/** Scorers that most captures are asked about. The others change the prefix, so they cannot count on a cache. */
const isCommon = ({ needs, sampleRate = 1 }: JudgeScorer): boolean =>
  sampleRate === 1 && needs.every((need) => need === 'request' || need === 'reply');

const commonJudges = (scorers: readonly Scorer[]): JudgeScorer[] => scorers.filter(isModelScorer).filter(isCommon);

/** Returns why the model caches no prefix of these scorers; `undefined` if it does. */
export function uncachedReason(scorers: readonly Scorer[], modelId: string): string | undefined {
  const minimum = cacheMinimum(modelId);
  if (minimum === undefined) return `${modelId} is not known to cache instructions`;
  const tokens = prefixTokens(commonJudges(scorers));
  return tokens < minimum
    ? `the instructions of the judge have about ${tokens} tokens, and ${modelId} caches from ${minimum} on; longer ones are not available, or would cost more`
    : undefined;
}

/**
 * Adds examples to the scorers, one for each scorer in each round, until the model caches the prefix.
 *
 * @param examples by scorer name
 * @param rates of the model
 * @param again additional cost of a token of the examples, in the unit of the rates: the main judge of a cascade is
 *   asked few questions, and reads their examples without a cache
 * @returns the scorers unchanged if the examples do not suffice, or if the short prefix costs less than the cached
 *   prefix
 */
export function cachedPrefix(
  scorers: readonly Scorer[],
  examples: Readonly<Record<string, readonly ScorerExample[]>>,
  modelId: string,
  rates: Rates | null,
  again = 0,
): readonly Scorer[] {
  const minimum = cacheMinimum(modelId);
  const judges = commonJudges(scorers);
  const short = prefixTokens(judges);
  if (minimum === undefined || rates?.cacheRead === undefined || short >= minimum) return scorers;
  const byRound = Object.entries(examples)
    .flatMap(([name, list]) => list.map((example, round) => ({ name, example, round })))
    .toSorted((one, other) => one.round - other.round);
  for (let count = 1; count <= byRound.length; count += 1) {
    const added = Map.groupBy(byRound.slice(0, count), ({ name }) => name);
    const filled = judges.map((scorer) => {
      const more = added.get(scorer.name)?.map(({ example }) => example);
      return more === undefined ? scorer : withExamples(scorer, [...(scorer.examples ?? []), ...more]);
    });
    const long = prefixTokens(filled);
    if (long < minimum) continue;
    if (long * rates.cacheRead + (long - short) * again >= short * rates.input) return scorers;
    return scorers.map((scorer) => filled.find(({ name }) => name === scorer.name) ?? scorer);
  }
  return scorers;
}
