/** How large the requests of a capture's judging are, before they are made: for the budget, and for estimates. */
import type { Capture } from '../../formats/types.ts';
import { answerSchemaText } from '../answer/answer-schema.ts';
import { memoByScorers } from '../memo.ts';
import { MAX_RECORD_TOKENS, systemPrompt } from '../prompt/build-prompt.ts';
import { fencedRecord } from '../prompt/record.ts';
import { estimateTokens } from '../prompt/tokens.ts';
import { judgeableExchange } from '../scorers/applicability.ts';
import type { JudgeScorer } from '../types.ts';

/**
 * Tokens are reserved from the account's quota when a call starts, so the bound is near what an answer takes: two
 * sentences of rationale are some 70 tokens, names and braces 20.
 */
const TOKENS_PER_SCORER = 130;
const TOKENS_AROUND = 100;
/** Of its bound, an answer takes this much on average. */
const LIKELY_SHARE = 0.6;

/** Bound on the answer to so many scorers, in tokens. */
export const answerTokens = (scorers: number): number => TOKENS_AROUND + TOKENS_PER_SCORER * scorers;

/** Words around the record in the user turn. */
const TOKENS_AROUND_RECORD = 40;

export interface AskSize {
  calls: number;
  inputTokens: number;
  /** Most tokens that the answers can have. */
  maxOutputTokens: number;
  /** What they are likely to have. */
  outputTokens: number;
}

interface AskSizeOptions {
  calls?: 'together' | 'separate' | undefined;
  maxRecordTokens?: number | undefined;
  /** As configured, in place of `answerTokens`. */
  maxTokens?: number | undefined;
  thinkingTokens?: number | undefined;
}

const fixedSize = memoByScorers(
  (scorers) =>
    estimateTokens(systemPrompt(scorers, 'json-schema')) +
    estimateTokens(answerSchemaText(scorers)) +
    TOKENS_AROUND_RECORD,
);

/** Estimated tokens of asking the scorers of a capture once. */
export function askSize(capture: Capture, scorers: readonly JudgeScorer[], options: AskSizeOptions = {}): AskSize {
  const groups = options.calls === 'separate' ? scorers.map((scorer) => [scorer]) : scorers.length > 0 ? [scorers] : [];
  const exchange = judgeableExchange(capture) ?? { messages: [], replies: [], tools: [] };
  const record = estimateTokens(fencedRecord(exchange, options.maxRecordTokens ?? MAX_RECORD_TOKENS).text);
  const size: AskSize = { calls: 0, inputTokens: 0, maxOutputTokens: 0, outputTokens: 0 };
  for (const group of groups) {
    const bound = options.maxTokens ?? answerTokens(group.length);
    size.calls += 1;
    size.inputTokens += fixedSize(group, '') + record;
    size.maxOutputTokens += bound + (options.thinkingTokens ?? 0);
    size.outputTokens += Math.round(answerTokens(group.length) * LIKELY_SHARE) + (options.thinkingTokens ?? 0);
  }
  return size;
}
