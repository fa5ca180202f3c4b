/** Checks that the judge's model exists, until when, and what it costs. */
import type { BedrockClient } from '@aws-sdk/client-bedrock';
import { checkJudgeModel } from '../../src/judge/model-check.ts';
import { PRICE_SOURCE, ratesOf } from '../../src/judge/pricing/prices.ts';
import type { CheckedSettings } from '../../src/settings/schema.ts';
import { type Finding, finding } from './finding.ts';

/** The judge that the settings name; `undefined` in a region without a default. */
export async function checkJudge(
  { BEDROCK_MODEL_ID: model, JUDGE_PRICES: overrides }: Partial<CheckedSettings>,
  client: BedrockClient,
  region: string,
): Promise<Finding[]> {
  if (model === undefined) return [];
  const check = await checkJudgeModel(model, client);
  // The answer of an emulator does not apply to Bedrock.
  const asked = process.env.AWS_ENDPOINT_URL_BEDROCK ?? process.env.AWS_ENDPOINT_URL;
  const source = asked ? ` (The answer is from ${asked}, not from Bedrock.)` : '';
  const rates = ratesOf(model, { region, overrides });
  return [
    finding(check.level, 'judge', `${check.message}${source}`),
    rates === null
      ? finding(
          'warning',
          'price',
          `The price of ${model} is unknown: set it in JUDGE_PRICES, or set EVALUATION_BUDGET_USD=0`,
        )
      : finding(
          'ok',
          'price',
          `${rates.input} and ${rates.output} US dollars per million input and output tokens (${PRICE_SOURCE})`,
        ),
  ];
}
