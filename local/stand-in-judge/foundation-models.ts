/** Bedrock's GetFoundationModel, its availability and GetInferenceProfile, limited to a model's lifecycle. */
import type { ModelBehavior } from './behavior.ts';
import { type HttpAnswer, jsonAnswer, serviceError } from './http-answer.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

export function foundationModel(modelId: string, model: ModelBehavior): HttpAnswer {
  if (model.state === 'denied')
    return serviceError(403, 'AccessDeniedException', 'User is not authorized to perform: bedrock:GetFoundationModel');
  if (model.state === 'invalid')
    return serviceError(400, 'ValidationException', 'The provided model identifier is invalid.');
  if (model.state === 'missing' || model.state === 'unlisted')
    return serviceError(404, 'ResourceNotFoundException', 'The model was not found.');
  const now = Date.now();
  const lifecycle = {
    active: { status: 'ACTIVE' },
    legacy: { status: 'LEGACY', endOfLifeTime: new Date(now + 60 * DAY_MS).toISOString() },
    ended: { status: 'LEGACY', endOfLifeTime: new Date(now - DAY_MS).toISOString() },
  }[model.state];
  return jsonAnswer(200, {
    modelDetails: {
      modelArn: `arn:aws:bedrock:us-east-1::foundation-model/${modelId}`,
      modelId,
      modelName: 'Stand-in',
      providerName: 'Stand-in',
      modelLifecycle: lifecycle,
    },
  });
}

/** Every model that exists may be used. */
export function modelAvailability(modelId: string, model: ModelBehavior): HttpAnswer {
  if (model.state === 'denied' || model.state === 'missing') return foundationModel(modelId, model);
  return jsonAnswer(200, {
    modelId,
    agreementAvailability: { status: 'AVAILABLE' },
    authorizationStatus: 'AUTHORIZED',
    entitlementAvailability: 'AVAILABLE',
    regionAvailability: 'AVAILABLE',
  });
}

/** Returns the name in an id or an ARN. */
export const nameIn = (idOrArn: string): string => idOrArn.slice(idOrArn.lastIndexOf('/') + 1);

/** Returns the model of a cross-region profile: its id follows the first dot. */
export const modelOfProfile = (idOrArn: string): string => nameIn(idOrArn).replace(/^[a-z-]+\./, '');

/** Answers for a cross-region profile, which exists as long as its model. */
export function inferenceProfile(idOrArn: string, model: ModelBehavior): HttpAnswer {
  const profileId = nameIn(idOrArn);
  const modelId = modelOfProfile(idOrArn);
  if (model.state === 'missing') {
    return serviceError(404, 'ResourceNotFoundException', 'The inference profile was not found.');
  }
  return jsonAnswer(200, {
    inferenceProfileId: profileId,
    inferenceProfileArn: `arn:aws:bedrock:us-east-1:000000000000:inference-profile/${profileId}`,
    inferenceProfileName: profileId,
    models: [{ modelArn: `arn:aws:bedrock:us-east-1::foundation-model/${modelId}` }],
    status: 'ACTIVE',
    type: 'SYSTEM_DEFINED',
  });
}
