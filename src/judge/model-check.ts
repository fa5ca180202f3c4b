/** Whether the judge's model is there, and for how long: asked by `inference-monitor doctor` and at the start of runs. */
import { BedrockClient, GetFoundationModelCommand, GetInferenceProfileCommand } from '@aws-sdk/client-bedrock';
import { PermanentError, saidBy } from '../shared/errors.ts';
import { parseJudgeId } from './judge-id.ts';
import { parseProfileId } from './pricing/profile-id.ts';

type ModelState =
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

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '');
const day = (date: Date): string => date.toISOString().slice(0, 10);

const isProfile = (name: string): boolean =>
  parseProfileId(name) !== undefined || /:(application-)?inference-profile\//.test(name);

/** The foundation model behind an inference profile, by its id or ARN; `undefined` where there is none. */
async function modelBehind(client: BedrockClient, name: string): Promise<string | undefined> {
  if (!isProfile(name)) return /^arn:/.test(name) && !name.includes(':foundation-model/') ? undefined : name;
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
    endOfLife,
    message,
  });
  if (scheme !== 'bedrock')
    return { ...result('unknown', `${model} is not on Bedrock: nothing is known of its life.`), level: 'ok' };
  let foundationModel: string | undefined;
  try {
    foundationModel = await modelBehind(client, name);
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
    const why = saidBy(error);
    if (nameOf(error) === 'ResourceNotFoundException' || nameOf(error) === 'ValidationException') {
      // A profile that is there may route to models that its own region does not list.
      if (isProfile(name) && foundationModel !== undefined) {
        return result('unknown', `The life cycle of ${foundationModel} cannot be looked up in this region (${why}).`);
      }
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

/** A run must not wait for a look-up that it could do without: in a VPC without a way to Bedrock it never comes back. */
const LOOK_UP_TIMEOUT_MS = 3_000;

/**
 * The check as runs make it: once in the life of a Lambda, unless nothing can be judged: that may be mended meanwhile.
 *
 * @param onTrouble told when the model could not be looked up at all, which is no reason to stop a run
 * @returns a function that tells what a person must know of the model; `undefined`: nothing
 */
export function createModelWatch(
  model: string,
  onTrouble: (error: unknown) => void,
  client: BedrockClient = new BedrockClient({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: LOOK_UP_TIMEOUT_MS, requestTimeout: LOOK_UP_TIMEOUT_MS },
  }),
): () => Promise<ModelCheck | undefined> {
  let check: Promise<ModelCheck | undefined> | undefined;
  return async () => {
    check ??= checkJudgeModel(model, client).catch((error: unknown) => {
      onTrouble(error);
      return undefined;
    });
    const result = await check;
    if (result?.level === 'error') check = undefined;
    // A model of one's own has no life cycle, and never will.
    return result?.level === 'ok' || result?.state === 'unknown' ? undefined : result;
  };
}

/** @throws PermanentError `JudgeModelGone` when nothing can be judged with the model any more */
export function assertModelLives(check: ModelCheck | undefined): void {
  if (check?.level !== 'error') return;
  throw new PermanentError('JudgeModelGone', check.message, {
    got: check.model,
    expected: 'a model that Bedrock offers in the region of the stack',
    where: 'BEDROCK_MODEL_ID',
  });
}
