/** Checks that the judge's model exists, until when, and what it costs. */
import type { BedrockClient } from '@aws-sdk/client-bedrock';
import { judgeModels } from '../../src/judge/judge-id.ts';
import { checkJudgeModel } from '../../src/judge/model-check.ts';
import { PRICE_SOURCE, ratesOf } from '../../src/judge/pricing/prices.ts';
import type { CheckedSettings } from '../../src/settings/schema.ts';
import { type Finding, finding } from './finding.ts';

/** The judge that the settings name, and the first model of a cascade; none in a region without a default. */
export async function checkJudge(
  { BEDROCK_MODEL_ID, JUDGE_CASCADE, JUDGE_PRICES }: Partial<CheckedSettings>,
  client: BedrockClient,
  region: string,
): Promise<Finding[]> {
  if (BEDROCK_MODEL_ID === undefined) return [];
  const models = judgeModels({ BEDROCK_MODEL_ID, JUDGE_CASCADE });
  return (await Promise.all(models.map((model) => checkModel(model, JUDGE_PRICES, client, region)))).flat();
}

async function checkModel(
  model: string,
  overrides: CheckedSettings['JUDGE_PRICES'] | undefined,
  client: BedrockClient,
  region: string,
): Promise<Finding[]> {
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
