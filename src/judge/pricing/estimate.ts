/** Estimates the judge's cost for a run before the run starts. */

import type { Capture } from '../../captures/types.ts';
import type { RunOptions } from '../../core/contract/input.ts';
import type { CostEstimate, JudgeSpend } from '../../core/contract/receipts.ts';
import type { LambdaEnvironment } from '../../core/settings/environment.ts';
import { askedFirst } from '../cascade.ts';
import { chatCapture } from '../chat-capture.ts';
import { firstModel, isStandIn, judgeModels, judgeName } from '../judge-id.ts';
import { memoByScorer } from '../memo.ts';
import type { Taught } from '../models/learned.ts';
import { answerBounds, readParameters } from '../parameters.ts';
import { MAX_RECORD_TOKENS } from '../prompt/build-prompt.ts';
import type { AlwaysRule } from '../scorers/always-rules.ts';
import { applicability } from '../scorers/applicability.ts';
import { chancesOf, isDrawn } from '../scorers/chances.ts';
import { isModelScorer } from '../scorers/scorer-set.ts';
import { addSpend, emptySpend } from '../spend.ts';
import type { JudgeScorer, Scorer } from '../types.ts';
import {
  PRICE_SOURCE,
  priceCall,
  priceOptions,
  propertiesIn,
  ratesOf,
  requireKnownPrice,
  UNKNOWN_PROPERTIES,
} from './prices.ts';
import { askSize, cacheMinimum, FAILING_SHARE } from './request-tokens.ts';

type JudgeSettings = PricedSettings &
  Pick<LambdaEnvironment, 'EVALUATION_BUDGET_USD'> &
  Partial<Pick<LambdaEnvironment, 'JUDGE_RATIONALES'>>;
/**
 * @property sampleRate absent: every capture is judged
 * @property asListed uses the model's list price, even if a free stand-in answers
 */
type EstimateOptions = Pick<RunOptions, 'judge' | 'sampleRate'> & { asListed?: true };

/**
 * Refuses a run whose budget cannot be enforced.
 * @throws PermanentError `JudgePriceUnknown`
 */
export function assertJudgeAffordable(settings: JudgeSettings, options: Pick<RunOptions, 'budgetUsd' | 'judge'>): void {
  const budget = Math.max(settings.EVALUATION_BUDGET_USD, options.budgetUsd ?? 0);
  for (const model of judgeModels(settings)) requireKnownPrice(model, budget, priceOptions(settings, options.judge));
}

/** Returns an estimator that is given the decoded captures. */
export function createCostEstimator(
  settings: JudgeSettings,
  scorers: readonly Scorer[],
  options: EstimateOptions,
  always: AlwaysRule = () => undefined,
) {
  const asked = scorers.filter(isModelScorer);
  const total = totalOf(settings, options);
  return {
    /** Adds one capture that the run would trace. */
    add(
      capture: Capture,
      traceId: string,
      key?: string,
      chances = chancesOf({ sampleRate: options.sampleRate ?? 1 }),
    ): void {
      total.counts.captures += 1;
      const isRuled = () => always(capture, key) !== undefined;
      const due = asked.filter(
        (scorer) => isDrawn(traceId, scorer, chances, isRuled) && 'judge' in applicability(capture, scorer),
      );
      if (due.length > 0) total.add(expectedCalls(settings, capture, due, options), 1);
    },
    /** @param share of the captures that are judged, of those that were added */
    result: (share = 1) =>
      total.result(
        'Every capture was decoded and its requests to the judge were sized as they would be sent, at about 4 characters ' +
          'a token (fewer for other alphabets); answers are assumed to take 60% of their bound',
        share,
      ),
  };
}

/**
 * Bytes of a capture line that are not text: metadata, the two envelopes, JSON quoting. Chat captures were measured at 900
 * to 1,300.
 */
const ENVELOPE_BYTES = 1_000;
/** Bytes per token of the texts in the line: about 4 characters, with escapes between them. */
const BYTES_PER_TOKEN = 4.2;

/**
 * Estimates from sizes alone when there is no time to decode. Treats all captures as text exchanges of the average length.
 *
 * @param sizes `captures`: number of non-blank lines; `bytes`: their total size in S3
 */
export function estimateFromSizes(
  settings: JudgeSettings,
  scorers: readonly Scorer[],
  options: EstimateOptions,
  sizes: { captures: number; bytes: number },
): CostEstimate {
  const total = totalOf(settings, options);
  const asked = scorers.filter(isModelScorer);
  total.counts.captures = sizes.captures;
  const judged = Math.round(sizes.captures * (options.sampleRate ?? 1));
  if (judged > 0 && asked.length > 0) {
    const textBytes = Math.max(0, sizes.bytes / sizes.captures - ENVELOPE_BYTES);
    // Longer texts are cut to this bound.
    const tokens = Math.min(Math.round(textBytes / BYTES_PER_TOKEN), 2 * MAX_RECORD_TOKENS);
    const reply = { role: 'assistant', content: 'abc '.repeat(Math.max(1, tokens)) };
    const capture = chatCapture([{ role: 'user', content: '?' }], [reply]);
    // Scorers that need a system prompt or tools are left out, because sizes do not show either.
    const due = asked.filter((scorer) => 'judge' in applicability(capture, scorer));
    total.add(expectedCalls(settings, capture, due, options), judged);
  }
  return total.result(
    'From the number and the size of the lines alone, assuming text exchanges of average length with a reply',
  );
}

function totalOf(settings: JudgeSettings, options: EstimateOptions) {
  const { JUDGE_CASCADE: first, BEDROCK_MODEL_ID: model, JUDGE_RATIONALES: rationales } = settings;
  const isFree = (judge: string): boolean => !options.asListed && isStandIn(judge);
  const percent = `${FAILING_SHARE * 100}%`;
  const counts = { captures: 0, judgedCaptures: 0 };
  const expected = emptySpend();
  const priceOf = (judge: string): string => {
    if (isFree(judge)) return `the ${judgeName(judge)} costs nothing`;
    const isBatch = options.judge === 'batch' && judge === firstModel(settings);
    const rates = ratesOf(judge, priceOptions(settings));
    if (rates === null) return `the price of ${judge} is unknown`;
    const batch = isBatch ? ', half of it in batch inference' : '';
    const properties = propertiesIn(judge, settings.JUDGE_PRICES) ? '' : `; ${UNKNOWN_PROPERTIES}`;
    return `${judge} costs ${rates.input} and ${rates.output} US dollars per million input and output tokens${batch} (${PRICE_SOURCE})${properties}`;
  };
  /** Returns the additional cost of writing the cached prefix with each call instead of reading it. */
  const writing = (): number => {
    const prefix = (use: 'cacheReadInputTokens' | 'cacheWriteInputTokens'): number => {
      const usage = { inputTokens: 0, outputTokens: 0, [use]: expected.cacheReadTokens ?? 0 };
      return priceCall(firstModel(settings), usage, priceOptions(settings)) ?? 0;
    };
    return prefix('cacheWriteInputTokens') - prefix('cacheReadInputTokens');
  };
  const assumptions = (): string[] => [
    ...(expected.cacheReadTokens
      ? [
          'existing verdicts and repeated questions are not taken into account',
          `a prefix that is cached is read from the cache: if calls come too far apart for that, each writes it, for ${writing().toFixed(2)} US dollars more`,
        ]
      : ['existing verdicts, repeated questions and prompt caching are not taken into account']),
    ...(rationales === 'failures' ? [`${percent} of the verdicts are assumed to fail`] : []),
    ...(first === undefined ? [] : [`${percent} of the verdicts of ${first} are assumed to fail or to be unsure`]),
  ];
  return {
    counts,
    add(calls: JudgeSpend, captures: number): void {
      counts.judgedCaptures += captures;
      addSpend(expected, calls, captures);
    },
    result(how: string, share = 1): CostEstimate {
      const made = addSpend(emptySpend(), expected, share);
      const range = isFree(model) ? undefined : usdRange(settings, made.usd);
      return {
        captures: counts.captures,
        judgedCaptures: Math.round(counts.judgedCaptures * share),
        judgeCalls: Math.round(made.calls),
        inputTokens: Math.round(made.inputTokens),
        outputTokens: Math.round(made.outputTokens),
        usd: isFree(model) ? 0 : made.usd,
        ...(range && { usdRange: range }),
        model: isFree(model) ? judgeName(model) : model,
        basis: [how, ...assumptions(), ...[model, ...(first === undefined ? [] : [first])].map(priceOf)]
          .join('; ')
          .concat('.'),
      };
    },
  };
}

// --------------------------------------------------------------------------------------------- calls for a capture
// The expected calls and cost of judging a capture with given settings.

type PricedSettings = Pick<LambdaEnvironment, 'BEDROCK_MODEL_ID' | 'JUDGE_PRICES' | 'MLFLOW_EVALUATION_MODEL_PARAM'> &
  Partial<Pick<LambdaEnvironment, 'JUDGE_CASCADE' | 'JUDGE_PREFIX'>> &
  Taught;

const costsOf = ({ shared }: Taught, model: string): number | undefined => shared?.learned?.(model).costs;

/** From bare values to the highest bound, where cut answers are asked for again. */
const UNKNOWN_COSTS = { least: 0.25, most: 7 };

/** Returns the minimum and maximum cost of an estimate. Returns `undefined` if enough answers are known. */
export function usdRange(settings: PricedSettings, usd: number | null): [number, number] | undefined {
  const isKnown = judgeModels(settings).every((model) => costsOf(settings, model) !== undefined);
  return isKnown || !usd ? undefined : [usd * UNKNOWN_COSTS.least, usd * UNKNOWN_COSTS.most];
}

interface Assumed {
  judge?: RunOptions['judge'];
  /** Whether the cache is used for prefixes that are long enough. Default: `JUDGE_PREFIX` is `cached`. */
  cacheHits?: boolean;
  /**
   * Share of captures with a failing verdict. Default: as if each failing verdict belonged to a different capture,
   * which is the maximum.
   */
  failingCaptures?: number;
}

/**
 * Returns averages, which are fractions. Expects a capture to be judged by one call. In a cascade the judge is asked about the captures
 * with a verdict that fails, at the full price even if the first model is asked in batch inference.
 */
export function expectedCalls(
  settings: PricedSettings,
  capture: Capture,
  scorers: readonly JudgeScorer[],
  assumed: Assumed = {},
): JudgeSpend {
  const { JUDGE_CASCADE, BEDROCK_MODEL_ID: main, MLFLOW_EVALUATION_MODEL_PARAM: parameters } = settings;
  const { judge: judging = 'converse', cacheHits = settings.JUDGE_PREFIX === 'cached' } = assumed;
  const priced = (model: string, asked: readonly JudgeScorer[], judge: RunOptions['judge']): JudgeSpend => {
    const bounds = answerBounds(readParameters(model === main ? parameters : {}));
    const size = askSize(capture, asked, { ...bounds, properties: propertiesIn(model, settings.JUDGE_PRICES) });
    const isCached = cacheHits && judge !== 'batch' && size.prefixTokens >= (cacheMinimum(model) ?? Infinity);
    const cacheReadInputTokens = isCached ? size.prefixTokens : 0;
    const { inputTokens, outputTokens } = size;
    const usage = { inputTokens: inputTokens - cacheReadInputTokens, outputTokens, cacheReadInputTokens };
    const listed = priceCall(model, usage, priceOptions(settings, judge));
    const usd = listed === null ? null : listed * (costsOf(settings, model) ?? 1);
    return { calls: size.calls, inputTokens, outputTokens, cacheReadTokens: cacheReadInputTokens, usd };
  };
  if (JUDGE_CASCADE === undefined) return priced(main, scorers, judging);
  const first = priced(JUDGE_CASCADE, scorers.map(askedFirst), judging);
  const { failingCaptures: share = 1 - (1 - FAILING_SHARE) ** scorers.length } = assumed;
  const asked = Math.min(scorers.length, Math.max(1, (FAILING_SHARE * scorers.length) / share));
  const fewer = Math.floor(asked);
  const again = (count: number): JudgeSpend => priced(main, scorers.slice(0, count).map(withRationale), 'converse');
  // Between two whole numbers of scorers, the average of both.
  const some = addSpend(first, again(fewer), share * (fewer + 1 - asked));
  return asked === fewer ? some : addSpend(some, again(fewer + 1), share * (asked - fewer));
}

/** Failures have a rationale. */
const withRationale = memoByScorer((scorer) => ({ ...scorer, isTerse: false }));
