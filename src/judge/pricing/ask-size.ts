/** Estimates the size of the requests that judge a capture, before they are made: for the budget and for estimates. */
import type { Capture } from '../../captures/types.ts';
import { answerSchemaText } from '../answer/answer-schema.ts';
import { memoByScorers } from '../memo.ts';
import { MAX_RECORD_TOKENS } from '../prompt/build-prompt.ts';
import { captureRecord } from '../prompt/record.ts';
import { estimateTokens } from '../prompt/tokens.ts';
import type { JudgeScorer } from '../types.ts';
import { prefixTokens } from './prompt-cache.ts';

/**
 * Bedrock deducts the bound from the account's quota when a call starts, so it is close to what an answer takes: two
 * sentences of rationale are about 70 tokens, names and braces 20.
 */
const TOKENS_PER_SCORER = 130;
const TOKENS_AROUND = 100;
/** The average share of the bound that an answer takes. */
const LIKELY_SHARE = 0.6;

/** The share of the verdicts that is assumed to fail, and so to need words or a second model. */
export const FAILING_SHARE = 0.1;

/** Returns the bound on the answer to this number of scorers, in tokens. */
export const answerTokens = (scorers: number): number => TOKENS_AROUND + TOKENS_PER_SCORER * scorers;

/** Words around the record in the user turn. */
const TOKENS_AROUND_RECORD = 40;

/** The likely length of the answer, in tokens. A terse question takes its name and a word, unless it fails. */
const likelyTokens = memoByScorers((scorers): number => {
  const withWords = scorers.reduce(
    (sum, { isTerse, asksIfSure }) => sum + (isTerse ? (asksIfSure ? 0 : FAILING_SHARE) : 1),
    0,
  );
  const bare = scorers.filter(({ isTerse }) => isTerse).map(({ name }) => [name, 'yes']);
  const bareShare = scorers.some(({ asksIfSure }) => asksIfSure) ? 1 : 1 - FAILING_SHARE;
  const bareTokens = bare.length === 0 ? 0 : estimateTokens(JSON.stringify(Object.fromEntries(bare))) * bareShare;
  const words = (answerTokens(scorers.length) * LIKELY_SHARE * withWords) / Math.max(1, scorers.length);
  return Math.round(words + bareTokens);
});

export interface AskSize {
  calls: number;
  inputTokens: number;
  /** The part of `inputTokens` that is the same for every capture, and stands before the point up to which it is cached. */
  prefixTokens: number;
  /** The maximum number of tokens of the answers. */
  maxOutputTokens: number;
  /** Their likely number. */
  outputTokens: number;
}

interface AskSizeOptions {
  calls?: 'together' | 'separate' | undefined;
  maxRecordTokens?: number | undefined;
  /** The configured bound, which replaces `answerTokens`. */
  maxTokens?: number | undefined;
  thinkingTokens?: number | undefined;
}

const fixedSize = memoByScorers(
  (scorers) => prefixTokens(scorers) + estimateTokens(answerSchemaText(scorers)) + TOKENS_AROUND_RECORD,
);

/** Estimates the tokens of asking the scorers about a capture once. */
export function askSize(capture: Capture, scorers: readonly JudgeScorer[], options: AskSizeOptions = {}): AskSize {
  const { maxRecordTokens = MAX_RECORD_TOKENS, thinkingTokens = 0 } = options;
  const groups = options.calls === 'separate' ? scorers.map((scorer) => [scorer]) : scorers.length > 0 ? [scorers] : [];
  const record = estimateTokens(captureRecord(capture, maxRecordTokens).text);
  const size: AskSize = { calls: groups.length, inputTokens: 0, prefixTokens: 0, maxOutputTokens: 0, outputTokens: 0 };
  for (const group of groups) {
    const bound = answerTokens(group.length);
    size.inputTokens += fixedSize(group) + record;
    size.prefixTokens += prefixTokens(group);
    size.maxOutputTokens += (options.maxTokens ?? bound) + thinkingTokens;
    size.outputTokens += likelyTokens(group) + thinkingTokens;
  }
  return size;
}
