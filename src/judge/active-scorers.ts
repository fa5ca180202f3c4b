/** The scorers that the settings make active, in the form in which the judge of these settings is asked. */
import type { RunOptions } from '../core/contract/input.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { firstModel } from './judge-id.ts';
import { priceOptions, ratesOf } from './pricing/prices.ts';
import { cachedPrefix, FAILING_SHARE, uncachedReason } from './pricing/request-tokens.ts';
import prefixExamples from './scorers/prefix-examples.json' with { type: 'json' };
import { checkScorers, isModelScorer, scorersFor } from './scorers/scorer-set.ts';
import type { JudgeScorer, Scorer } from './types.ts';

type ScorerSettings = Pick<LambdaEnvironment, 'BEDROCK_MODEL_ID' | 'JUDGE_GUIDELINES' | 'JUDGE_PRICES'> &
  Partial<Pick<LambdaEnvironment, 'JUDGE_CASCADE' | 'JUDGE_PREFIX' | 'JUDGE_RATIONALES' | 'SCORER_FUNCTIONS'>>;

/**
 * Returns the scorers of a stack, with the long prefix that the model caches if `JUDGE_PREFIX` asks for it.
 *
 * @param judge requests of batch inference are not cached, so their prefix stays short
 * @throws PermanentError `InvalidScorers`
 */
export function activeScorers(settings: ScorerSettings, judge: RunOptions['judge'] = 'converse'): readonly Scorer[] {
  const { JUDGE_GUIDELINES: guidelines, JUDGE_RATIONALES: rationales, SCORER_FUNCTIONS: functions } = settings;
  const scorers = scorersFor({ guidelines, rationales, functions });
  if (settings.JUDGE_PREFIX !== 'cached' || judge === 'batch') return scorers;
  const model = firstModel(settings);
  // A guideline in place of a default scorer has another question, for which the examples are wrong.
  const examples = Object.fromEntries(
    Object.entries(prefixExamples).filter(([name]) => !Object.hasOwn(settings.JUDGE_GUIDELINES, name)),
  );
  const rates = ratesOf(model, priceOptions(settings));
  const main = model === settings.BEDROCK_MODEL_ID ? null : ratesOf(settings.BEDROCK_MODEL_ID, priceOptions(settings));
  return checkScorers(cachedPrefix(scorers, examples, model, rates, FAILING_SHARE * (main?.input ?? 0)));
}

/** The active questions about harm, to the judge. */
export const harmScorers = (settings: ScorerSettings): JudgeScorer[] =>
  activeScorers(settings)
    .filter(isModelScorer)
    .filter(({ severity }) => severity === 'harm');

/** Returns a warning if `JUDGE_PREFIX=cached` has no effect on runs that ask the judge at once. */
export function uncachedWarning(settings: ScorerSettings, { judge }: Pick<RunOptions, 'judge'>): string | undefined {
  if (settings.JUDGE_PREFIX !== 'cached' || judge === 'batch') return undefined;
  const reason = uncachedReason(activeScorers(settings), firstModel(settings));
  return reason && `JUDGE_PREFIX=cached has no effect: ${reason}`;
}
