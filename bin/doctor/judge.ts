/** Checks that the judge's model exists, until when, whether the account may use it, and its price. */

import { GetFoundationModelAvailabilityCommand } from '@aws-sdk/client-bedrock';
import { isStandIn, judgeModels, judgeName, parseJudgeId, splitEndpoint } from '../../src/judge/judge-id.ts';
import { checkJudgeModel } from '../../src/judge/model-check.ts';
import {
  PRICE_SOURCE,
  priceRemedy,
  propertiesIn,
  ratesOf,
  UNKNOWN_PROPERTIES,
} from '../../src/judge/pricing/prices.ts';
import { checkServing } from './endpoint.ts';
import { broken, type CheckContext, checked, type Found, ok, under, unknown, warning } from './finding.ts';

/** Checks the judge in the settings, and the first model of a cascade. Finds nothing in a region without a default. */
export const checkJudge = (context: CheckContext, BEDROCK_MODEL_ID: string): Promise<Found> => {
  const models = judgeModels({ BEDROCK_MODEL_ID, JUDGE_CASCADE: context.settings.JUDGE_CASCADE });
  return Promise.all(models.map((model) => checkModel(context, model)));
};

/** Checks that a model exists, until when, and whether the account may use it. */
async function checkModel(context: CheckContext, model: string): Promise<Found> {
  const { bedrock, settings } = context;
  const { scheme, name } = parseJudgeId(model);
  const price = under('price', priceOf(context, model));
  if (scheme === 'sagemaker') {
    const setting = model === settings.JUDGE_CASCADE ? 'JUDGE_CASCADE' : 'BEDROCK_MODEL_ID';
    const { found } = await checkServing(context, splitEndpoint(name).endpoint, setting);
    return [found, price];
  }
  const { level, state, message, foundationModel } = await checkJudgeModel(model, bedrock);
  // The answer of an emulator does not apply to Bedrock.
  const asked = process.env.AWS_ENDPOINT_URL_BEDROCK ?? process.env.AWS_ENDPOINT_URL;
  const source = asked ? ` (The answer is from ${asked}, not from Bedrock.)` : '';
  const make = { ok, warning, error: broken }[level];
  const exists = (state === 'denied' ? unknown : make)(`${message}${source}`);
  if (foundationModel === undefined || level === 'error') return [exists, price];
  const isProfile = name !== foundationModel;
  const usable = await checked('access', 'bedrock:GetFoundationModelAvailability', () =>
    checkAccess(context, foundationModel, isProfile),
  );
  return [exists, usable, price];
}

function priceOf({ region, settings }: CheckContext, model: string): Found {
  if (isStandIn(model)) return ok(`The ${judgeName(model)} costs nothing.`);
  const rates = ratesOf(model, { region, overrides: settings.JUDGE_PRICES });
  if (rates === null) return warning(`The price of ${model} is unknown.`, `set ${priceRemedy(model)}`);
  const both = `${rates.input} and ${rates.output} US dollars per million input and output tokens`;
  if (!propertiesIn(model, settings.JUDGE_PRICES)) return warning(`${both} (${PRICE_SOURCE}); ${UNKNOWN_PROPERTIES}.`);
  return ok(`${both} (${PRICE_SOURCE}).`);
}

const USE_ONCE =
  "use the model once in the account, in the playground of the Bedrock console, which also has its vendor's form: the functions cannot subscribe to it";

/** Checks whether the account may use a foundation model. A profile may route to other regions than its own. */
async function checkAccess({ bedrock, region }: CheckContext, modelId: string, isProfile: boolean): Promise<Found> {
  const reply = await bedrock.send(new GetFoundationModelAvailabilityCommand({ modelId }));
  const { agreementAvailability, authorizationStatus, entitlementAvailability, regionAvailability } = reply;
  if (regionAvailability === 'NOT_AVAILABLE' && !isProfile) {
    return broken(`${modelId} is not available in ${region}.`, 'set BEDROCK_MODEL_ID to a profile');
  }
  const agreement = agreementAvailability?.status;
  const refusals = [
    agreement === 'AVAILABLE' ? '' : `the agreement with its vendor is ${agreement}`,
    authorizationStatus === 'AUTHORIZED' ? '' : `the account is ${authorizationStatus}`,
    entitlementAvailability === 'AVAILABLE' ? '' : `the entitlement is ${entitlementAvailability}`,
  ].filter(Boolean);
  if (refusals.length === 0) return ok(`The account may use ${modelId}.`);
  return broken(`The account may not use ${modelId}: ${refusals.join(', ')}.`, USE_ONCE);
}
