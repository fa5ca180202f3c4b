/** Checks that the judge's model exists, and until when. `inference-monitor doctor` and the start of runs use it. */
import { BedrockClient, GetFoundationModelCommand, GetInferenceProfileCommand } from '@aws-sdk/client-bedrock';
import { PermanentError, saidBy } from '../core/errors/errors.ts';
import type { PriceOverrides } from '../core/settings/schema.ts';
import { parseJudgeId } from './judge-id.ts';
import { parseProfileId, withoutScheme } from './models/profile-id.ts';
import { priceUnknown, ratesOf } from './pricing/prices.ts';
import { policyRemedy } from './transports/bedrock-failures.ts';

type ModelState =
  | 'active'
  /** Works, but will be retired. */
  | 'legacy'
  /** Was retired. */
  | 'ended'
  | 'missing'
  /** The permissions do not allow the check. The model may work. */
  | 'denied'
  /** Bedrock has no life cycle for the model: a judge elsewhere, a custom or imported model. */
  | 'unknown';

export interface ModelCheck {
  model: string;
  state: ModelState;
  /** `error`: judging will fail; `warning`: it will fail at some point, or the check was inconclusive. */
  level: 'ok' | 'warning' | 'error';
  /** The model behind an inference profile, or the model itself. `undefined` if unknown. */
  foundationModel?: string | undefined;
  /** The day from which a legacy model may cost more than the list price. Set from 30 days before that day. */
  dearerFrom?: string | undefined;
  /** A sentence for people that names the remedy. */
  message: string;
}

const LEVELS: Record<ModelState, ModelCheck['level']> = {
  active: 'ok',
  legacy: 'warning',
  ended: 'error',
  missing: 'error',
  denied: 'warning',
  unknown: 'warning',
};

const PERMISSIONS = 'bedrock:GetFoundationModel and bedrock:GetInferenceProfile';
const day = (date: Date): string => date.toISOString().slice(0, 10);

const isProfile = (name: string): boolean =>
  parseProfileId(name) !== undefined || /:(application-)?inference-profile\//.test(name);

/**
 * Returns the foundation model behind an id or ARN of a model or an inference profile. Returns `undefined` if there is
 * none.
 */
async function modelBehind(client: BedrockClient, name: string): Promise<string | undefined> {
  if (!isProfile(name)) return /^arn:/.test(name) && !name.includes(':foundation-model/') ? undefined : name;
  const { models } = await client.send(new GetInferenceProfileCommand({ inferenceProfileIdentifier: name }));
  return models?.[0]?.modelArn?.split('/').at(-1);
}

/**
 * Looks up the model. Needs `bedrock:GetFoundationModel`, and `bedrock:GetInferenceProfile` for a profile.
 *
 * @example
 *     const { level, message } = await checkJudgeModel('bedrock:/anthropic.claude-haiku-4-5');
 */
export async function checkJudgeModel(
  model: string,
  client: BedrockClient = new BedrockClient({}),
  now: Date = new Date(),
): Promise<ModelCheck> {
  const { scheme, name } = parseJudgeId(model);
  let foundationModel: string | undefined;
  const found = (state: ModelState) => ({ model, state, level: LEVELS[state], foundationModel });
  const result = (state: ModelState, message: string): ModelCheck => ({ ...found(state), message });
  if (scheme !== 'bedrock')
    return { ...result('unknown', `${model} is not on Bedrock: its life cycle is unknown.`), level: 'ok' };
  try {
    foundationModel = await modelBehind(client, name);
    if (foundationModel === undefined)
      return result('unknown', `${model} is a custom model: Bedrock has no life cycle for it.`);
    const { modelDetails } = await client.send(new GetFoundationModelCommand({ modelIdentifier: foundationModel }));
    const { status, endOfLifeTime, publicExtendedAccessTime } = modelDetails?.modelLifecycle ?? {};
    if (endOfLifeTime !== undefined && endOfLifeTime <= now) {
      const retired = `${foundationModel} was retired on ${day(endOfLifeTime)}`;
      return result('ended', `${retired}: set BEDROCK_MODEL_ID to a newer model.`);
    }
    if (status === 'LEGACY') {
      const end = endOfLifeTime === undefined ? 'on a date that is not yet announced' : `on ${day(endOfLifeTime)}`;
      const legacy = `${foundationModel} is a legacy model and will be retired ${end}. Bedrock refuses it to accounts that have not used it recently. Plan a newer BEDROCK_MODEL_ID.`;
      if (!publicExtendedAccessTime || publicExtendedAccessTime.getTime() > now.getTime() + NOTICE_MS)
        return result('legacy', legacy);
      const dearerFrom = day(publicExtendedAccessTime);
      return { ...result('legacy', `${legacy} ${dearerText(model, dearerFrom)}`), dearerFrom };
    }
    return result('active', `${foundationModel} is active.`);
  } catch (error) {
    const why = saidBy(error);
    const { name: code, message } = error as Error;
    if (code === 'AccessDeniedException') {
      const remedy = policyRemedy(message);
      const needed = remedy ? `the stack needs ${remedy}` : `allow ${PERMISSIONS}`;
      return result('denied', `The model ${name} could not be looked up (${why}): ${needed}.`);
    }
    if (code !== 'ResourceNotFoundException' && code !== 'ValidationException') throw error;
    // An existing profile may route to models that its own region does not list.
    if (isProfile(name) && foundationModel !== undefined)
      return result('unknown', `The life cycle of ${foundationModel} is not available in this region (${why}).`);
    const remedy = 'check BEDROCK_MODEL_ID and AWS_REGION';
    return result('missing', `Bedrock has no model ${name} in this region (${why}): ${remedy}.`);
  }
}

const NOTICE_MS = 30 * 86_400_000;

/** Explains which price to set before a legacy model gets more expensive (public extended access in Bedrock). */
function dearerText(model: string, from: string): string {
  const { input, output } = ratesOf(model) ?? { input: 0, output: 0 };
  const line = `JUDGE_PRICES=${JSON.stringify({ [model]: { input, output } })}`;
  return `From ${from} on it may cost more, and its price counts as unknown: set ${line} with the new price in place of this one.`;
}

/** @throws PermanentError `JudgePriceUnknown` when a budget would be held at a price that no longer applies */
export function assertListPrice(check: ModelCheck | undefined, prices: PriceOverrides, now = new Date()): void {
  const { dearerFrom, model = '' } = check ?? {};
  const isSet = Object.keys(prices).some((id) => withoutScheme(id) === withoutScheme(model));
  if (dearerFrom !== undefined && dearerFrom <= day(now) && !isSet) throw priceUnknown(model);
}

/** @throws PermanentError `JudgeModelGone` when the model can no longer judge */
export function assertModelLives(check: ModelCheck | undefined): void {
  if (check?.level !== 'error') return;
  throw new PermanentError('JudgeModelGone', check.message, {
    got: check.model,
    expected: 'a model that Bedrock offers in the region of the stack',
    where: 'BEDROCK_MODEL_ID',
  });
}
