/** Whether the judge's model is there, and for how long: asked before a deployment and by checks, not by every run. */
import { BedrockClient, GetFoundationModelCommand, GetInferenceProfileCommand } from '@aws-sdk/client-bedrock';
import { parseJudgeId } from './create-judge.ts';

export type ModelState =
  | 'active'
  /** Works, and has an end. */
  | 'legacy'
  /** Past its end. */
  | 'ended'
  | 'missing'
  /** The check is not allowed; the model may work. */
  | 'denied'
  /** Not a model that Bedrock keeps a life cycle for: another judge, a custom or imported model. */
  | 'unknown';

export interface ModelCheck {
  model: string;
  state: ModelState;
  /** `error`: judging will fail; `warning`: it will one day, or it could not be told. */
  level: 'ok' | 'warning' | 'error';
  endOfLife?: Date;
  /** A sentence for people, with what to do. */
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

/** What an id stands before: a geography of cross-region inference. */
const PROFILE_ID = /^(global|us-gov|[a-z]{2,4})\.[a-z0-9-]+\./;

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '');
const day = (date: Date): string => date.toISOString().slice(0, 10);

/** The foundation model behind an inference profile, by its id or ARN; `undefined` where there is none. */
async function modelBehind(client: BedrockClient, name: string): Promise<string | undefined> {
  const isProfile = PROFILE_ID.test(name) || /:(application-)?inference-profile\//.test(name);
  if (!isProfile) return /^arn:/.test(name) && !name.includes(':foundation-model/') ? undefined : name;
  const { models } = await client.send(new GetInferenceProfileCommand({ inferenceProfileIdentifier: name }));
  return models?.[0]?.modelArn?.split('/').at(-1);
}

/** Looks the model up. Needs `bedrock:GetFoundationModel`, and `bedrock:GetInferenceProfile` for a profile. */
export async function checkJudgeModel(
  model: string,
  client: BedrockClient = new BedrockClient({}),
  now: Date = new Date(),
): Promise<ModelCheck> {
  const { scheme, name } = parseJudgeId(model);
  const result = (state: ModelState, message: string, endOfLife?: Date): ModelCheck => ({
    model,
    state,
    level: LEVELS[state],
    ...(endOfLife === undefined ? {} : { endOfLife }),
    message,
  });
  if (scheme !== 'bedrock')
    return { ...result('unknown', `${model} is not on Bedrock: nothing is known of its life.`), level: 'ok' };
  try {
    const foundationModel = await modelBehind(client, name);
    if (foundationModel === undefined)
      return result('unknown', `${model} is a model of your own: Bedrock keeps no life cycle for it.`);
    const { modelDetails } = await client.send(new GetFoundationModelCommand({ modelIdentifier: foundationModel }));
    const { status, endOfLifeTime } = modelDetails?.modelLifecycle ?? {};
    if (endOfLifeTime !== undefined && endOfLifeTime <= now) {
      return result(
        'ended',
        `${foundationModel} reached the end of its life on ${day(endOfLifeTime)}: set BEDROCK_MODEL_ID to a newer model.`,
        endOfLifeTime,
      );
    }
    if (status === 'LEGACY') {
      const end = endOfLifeTime === undefined ? 'at a date not yet told' : `on ${day(endOfLifeTime)}`;
      return result(
        'legacy',
        `${foundationModel} is a legacy model and ends ${end}; accounts that have not used it lately are refused. Plan a newer BEDROCK_MODEL_ID.`,
        endOfLifeTime,
      );
    }
    return result('active', `${foundationModel} is active.`, endOfLifeTime);
  } catch (error) {
    const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    if (nameOf(error) === 'ResourceNotFoundException' || nameOf(error) === 'ValidationException') {
      return result(
        'missing',
        `Bedrock has no model ${name} in this region (${why}): check BEDROCK_MODEL_ID and AWS_REGION.`,
      );
    }
    if (nameOf(error) === 'AccessDeniedException') {
      return result(
        'denied',
        `The model ${name} could not be looked up (${why}): allow bedrock:GetFoundationModel and bedrock:GetInferenceProfile.`,
      );
    }
    throw error;
  }
}
