/** Bedrock's GetFoundationModel, its availability and GetInferenceProfile. Every model exists and may be used. */
import { type HttpAnswer, jsonAnswer } from './http-answer.ts';

export function foundationModel(modelId: string, lifecycle: object = { status: 'ACTIVE' }): HttpAnswer {
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

export const modelAvailability = (modelId: string): HttpAnswer =>
  jsonAnswer(200, {
    modelId,
    agreementAvailability: { status: 'AVAILABLE' },
    authorizationStatus: 'AUTHORIZED',
    entitlementAvailability: 'AVAILABLE',
    regionAvailability: 'AVAILABLE',
  });

/** Returns the name in an id or an ARN. */
export const nameIn = (idOrArn: string): string => idOrArn.slice(idOrArn.lastIndexOf('/') + 1);

/** Returns the model of a cross-region profile: its id follows the first dot. */
export const modelOfProfile = (idOrArn: string): string => nameIn(idOrArn).replace(/^[a-z-]+\./, '');

/** Answers for a cross-region profile. */
export function inferenceProfile(idOrArn: string): HttpAnswer {
  const profileId = nameIn(idOrArn);
  const modelId = modelOfProfile(idOrArn);
  return jsonAnswer(200, {
    inferenceProfileId: profileId,
    inferenceProfileArn: `arn:aws:bedrock:us-east-1:000000000000:inference-profile/${profileId}`,
    inferenceProfileName: profileId,
    models: [{ modelArn: `arn:aws:bedrock:us-east-1::foundation-model/${modelId}` }],
    status: 'ACTIVE',
    type: 'SYSTEM_DEFINED',
  });
}
