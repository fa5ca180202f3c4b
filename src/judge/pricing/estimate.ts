/** What a run's judging will cost, before it starts. */

import type { RunOptions } from '../../contract/input.ts';
import type { CostEstimate } from '../../contract/receipts.ts';
import type { Capture } from '../../formats/types.ts';
import type { LambdaEnvironment } from '../../settings/environment.ts';
import { inSample } from '../../trace/ids.ts';
import { MAX_RECORD_TOKENS } from '../prompt/build-prompt.ts';
import type { CaptureContext } from '../scorers/always-rules.ts';
import { applicability } from '../scorers/applicability.ts';
import { answerBounds, readParameters } from '../transports/parameters.ts';
import type { JudgeScorer, Scorer } from '../types.ts';
import { type AskSize, askSize } from './ask-size.ts';
import { PRICE_SOURCE, type PriceOptions, priceCall, ratesOf, requireKnownPrice } from './prices.ts';

type JudgeSettings = Pick<
  LambdaEnvironment,
  'BEDROCK_MODEL_ID' | 'EVALUATION_BUDGET_USD' | 'JUDGE_CALLS' | 'JUDGE_PRICES' | 'MLFLOW_EVALUATION_MODEL_PARAM'
>;

/** How the judge's calls are priced under these settings. */
export const priceOptions = (
  settings: Pick<JudgeSettings, 'JUDGE_PRICES'>,
  judge: RunOptions['judge'] = 'converse',
): PriceOptions => ({
  region: process.env.AWS_REGION,
  overrides: settings.JUDGE_PRICES,
  batch: judge === 'batch',
});

/**
 * Refuses a run that a budget cannot be kept for.
 * @throws PermanentError `JudgePriceUnknown`
 */
export function assertJudgeAffordable(settings: JudgeSettings, options: Pick<RunOptions, 'budgetUsd' | 'judge'>): void {
  const budget = Math.max(settings.EVALUATION_BUDGET_USD, options.budgetUsd ?? 0);
  requireKnownPrice(settings.BEDROCK_MODEL_ID, budget, priceOptions(settings, options.judge));
}

interface CostEstimator {
  /** Adds one capture that would be traced. */
  add(capture: Capture, traceId: string, context?: CaptureContext): void;
  result(): CostEstimate;
}

/** A rule by which a capture is judged although the sample leaves it out. */
type AlwaysRule = (capture: Capture, context?: CaptureContext) => string | undefined;

/** An estimator that is fed with the captures themselves, decoded. */
export function createCostEstimator(
  settings: JudgeSettings,
  scorers: readonly Scorer[],
  options: Pick<RunOptions, 'judge' | 'sampleRate'>,
  always: AlwaysRule = () => undefined,
): CostEstimator {
  const asked = scorers.filter((scorer): scorer is JudgeScorer => scorer.kind === 'judge');
  const parameters = readParameters(settings.MLFLOW_EVALUATION_MODEL_PARAM);
  const sizeOptions = {
    calls: settings.JUDGE_CALLS,
    ...answerBounds(parameters),
  };
  const total = newTotal(settings, options);
  return {
    add(capture, traceId, context) {
      total.captures += 1;
      const isAlways = always(capture, context) !== undefined;
      if (!isAlways && !inSample(traceId, options.sampleRate)) return;
      const due = asked.filter(
        (scorer) =>
          (isAlways || inSample(traceId, scorer.sampleRate ?? 1, scorer.name)) &&
          'judge' in applicability(capture, scorer),
      );
      if (due.length > 0) total.add(askSize(capture, due, sizeOptions), 1);
    },
    result: () =>
      total.result(
        'Every capture was decoded and its requests to the judge were sized as they would be sent, at about 4 characters ' +
          'a token (fewer for other alphabets); answers are taken at 60% of their bound',
      ),
  };
}

/**
 * Bytes of a capture line that are not its texts: metadata, the two envelopes, JSON quoting. Measured on chat captures:
 * 900 to 1,300.
 */
const ENVELOPE_BYTES = 1_000;
/** Bytes per token of the texts as they stand in the line: about 4 characters, with escapes between them. */
const BYTES_PER_TOKEN = 4.2;
/** A capture as long as `tokens` tokens of plain reply, to size the request around it. */
const stretch = (tokens: number): Capture => ({
  inferenceTimeMs: 0,
  timeSource: 'inferenceTime',
  format: 'text',
  request: { contentType: 'text/plain', encoding: 'JSON', kind: 'text', value: '?', text: '?', bytes: 1 },
  response: {
    contentType: 'text/plain',
    encoding: 'JSON',
    kind: 'text',
    value: null,
    text: 'abc '.repeat(Math.max(1, tokens)),
    bytes: tokens * 4,
  },
  attributes: {},
  notes: [],
});

/**
 * An estimate from sizes alone, where there is no time to decode: all captures are taken for text exchanges of the
 * average length.
 *
 * @param sizes `captures`: non-blank lines; `bytes`: of all of them together, as they are in S3
 */
export function estimateFromSizes(
  settings: JudgeSettings,
  scorers: readonly Scorer[],
  options: Pick<RunOptions, 'judge' | 'sampleRate'>,
  sizes: { captures: number; bytes: number },
): CostEstimate {
  const total = newTotal(settings, options);
  const asked = scorers.filter((scorer): scorer is JudgeScorer => scorer.kind === 'judge');
  total.captures = sizes.captures;
  const judged = Math.round(sizes.captures * options.sampleRate);
  if (judged > 0 && asked.length > 0) {
    const textBytes = Math.max(0, sizes.bytes / sizes.captures - ENVELOPE_BYTES);
    // Longer texts are cut to that bound.
    const capture = stretch(Math.min(Math.round(textBytes / BYTES_PER_TOKEN), 2 * MAX_RECORD_TOKENS));
    // Without a system prompt or tools in sight, the scorers that need one are left out.
    const due = asked.filter((scorer) => 'judge' in applicability(capture, scorer));
    total.add(askSize(capture, due, { calls: settings.JUDGE_CALLS }), judged);
  }
  return total.result(
    'From the number and the size of the lines alone, taking all for text exchanges of average length with a reply',
  );
}

function newTotal(settings: JudgeSettings, options: Pick<RunOptions, 'judge'>) {
  const prices = priceOptions(settings, options.judge);
  const model = settings.BEDROCK_MODEL_ID;
  let judgedCaptures = 0;
  let judgeCalls = 0;
  let inputTokens = 0;
  let outputTokens = 0;
  return {
    captures: 0,
    add(size: AskSize, times: number): void {
      judgedCaptures += times;
      judgeCalls += size.calls * times;
      inputTokens += size.inputTokens * times;
      outputTokens += size.outputTokens * times;
    },
    result(how: string): CostEstimate {
      const rates = ratesOf(model, prices);
      const price =
        rates === null
          ? `the price of ${model} is not known`
          : `${model} costs ${rates.input} and ${rates.output} US dollars per million input and output tokens${prices.batch ? ', half of it in batch inference' : ''} (${PRICE_SOURCE})`;
      return {
        captures: this.captures,
        judgedCaptures,
        judgeCalls,
        inputTokens,
        outputTokens,
        usd: judgeCalls === 0 ? 0 : priceCall(model, { inputTokens, outputTokens }, prices),
        model,
        basis: `${how}; verdicts that are there already, repeated questions and prompt caching are not taken into account; ${price}.`,
      };
    },
  };
}
