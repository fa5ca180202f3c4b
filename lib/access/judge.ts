/** Permission to ask the judge's model: the one model, through the one profile, and nothing else. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { type ProfileId, parseProfileId } from '../../src/judge/pricing/profile-id.ts';
import type { Settings } from '../../src/settings/schema.ts';
import { allow } from './allow.ts';

const PROFILE_ARN = /^arn:[\w-]+:bedrock:[^:]*:[^:]*:(?:application-)?inference-profile\/(?<id>.+)$/;

// Converse is authorised as InvokeModel.
const INVOKE = 'bedrock:InvokeModel';

/** For a model id, an inference-profile id or an ARN of either, on Bedrock; for an endpoint; for a key elsewhere. */
export function grantJudge(role: Role, settings: Settings): void {
  const { BEDROCK_MODEL_ID: id, JUDGE_SECRET_ARN: secret } = settings;
  const stack = Stack.of(role);
  if (id.startsWith('sagemaker:/')) {
    // As IAM spells endpoints, whatever their own case.
    const endpoint = id.replace(/^sagemaker:\/+/, '').toLowerCase();
    const arn = `arn:${stack.partition}:sagemaker:${stack.region}:${stack.account}:endpoint/${endpoint}`;
    allow(role, { actions: ['sagemaker:InvokeEndpoint'], resources: [arn] });
  }
  for (const { arn, through, why } of modelResources(stack, id)) {
    allow(role, {
      actions: [INVOKE],
      resources: [arn],
      // What a profile stands on may be invoked through that profile alone.
      ...(through === undefined ? {} : { conditions: { StringEquals: { 'bedrock:InferenceProfileArn': through } } }),
      ...(why === undefined ? {} : { why: `${why}; calls through the one profile of the condition are allowed.` }),
    });
  }
  grantGuardrail(role, settings);
  if (secret !== undefined) allow(role, { actions: ['secretsmanager:GetSecretValue'], resources: [secret] });
}

function grantGuardrail(role: Role, { BEDROCK_GUARDRAIL_ID: guardrail }: Settings): void {
  if (guardrail === undefined) return;
  const { partition, region, account } = Stack.of(role);
  const arn = `arn:${partition}:bedrock:${region}:${account}:guardrail/${guardrail}`;
  allow(role, { actions: ['bedrock:ApplyGuardrail'], resources: [arn] });
}

/** Looking up whether the model is there and when it ends: what planning tells a person. */
export function grantModelLookUp(role: Role, id: string): void {
  const { partition, region } = Stack.of(role);
  // Of a judge elsewhere, and of a model of one's own, there is nothing to look up.
  if (/^(openai|sagemaker):\//.test(id)) return;
  const profile = profileOf(id);
  if (id.startsWith('arn:') && profile === undefined && !id.includes(':foundation-model/')) return;
  const models = `arn:${partition}:bedrock:${region}::foundation-model/`;
  if (profile === undefined) {
    const arn = id.startsWith('arn:') ? id : `${models}${id}`;
    allow(role, { actions: ['bedrock:GetFoundationModel'], resources: [arn] });
    return;
  }
  const profileArn = profileArnOf(Stack.of(role), id);
  allow(role, { actions: ['bedrock:GetInferenceProfile'], resources: [profileArn] });
  allow(role, {
    actions: ['bedrock:GetFoundationModel'],
    resources: [`${models}${profile.model ?? '*'}`],
    ...(profile.model === undefined
      ? { why: 'An application profile does not tell its model; what may be read of a model is public.' }
      : {}),
  });
}

/** The parts of an inference profile's id or ARN, none of an application profile's; `undefined` for all that is no profile. */
function profileOf(id: string): Partial<ProfileId> | undefined {
  const arnMatch = PROFILE_ARN.exec(id);
  if (id.startsWith('arn:') && arnMatch === null) return undefined;
  return parseProfileId(arnMatch?.groups?.id ?? id) ?? (arnMatch === null ? undefined : {});
}

const profileArnOf = ({ partition, region, account }: Stack, id: string): string =>
  id.startsWith('arn:') ? id : `arn:${partition}:bedrock:${region}:${account}:inference-profile/${id}`;

/** One ARN that IAM asks about when a model is used. */
interface ModelResource {
  arn: string;
  /** The inference profile by which it is reached; `undefined` for what the id names itself. */
  through?: string;
  /** Where the ARN has a wildcard: why, without a full stop. */
  why?: string;
}

/** The model or profile that an id of Bedrock names, and all that it stands on; nothing for a judge elsewhere. */
function modelResources(stack: Stack, id: string): ModelResource[] {
  const { partition, region } = stack;
  if (/^(openai|sagemaker):\//.test(id)) return [];
  const profile = profileOf(id);
  if (profile === undefined) {
    return [{ arn: id.startsWith('arn:') ? id : `arn:${partition}:bedrock:${region}::foundation-model/${id}` }];
  }
  const through = profileArnOf(stack, id);
  // An application profile tells neither its model nor the cross-region profile it may stand on.
  const isApplication = profile.model === undefined;
  const model = profile.model ?? '*';
  const resources: ModelResource[] = [
    { arn: through },
    {
      arn: `arn:${partition}:bedrock:*::foundation-model/${model}`,
      through,
      why: isApplication
        ? 'An application profile does not tell its model, nor the regions it routes to'
        : "The profile routes to regions of its geography, and which ones is Bedrock's to say",
    },
  ];
  if (isApplication || profile.geography === 'global') {
    resources.push({
      arn: `arn:${partition}:bedrock:::foundation-model/${model}`,
      through,
      ...(isApplication ? { why: 'An application profile does not tell its model' } : {}),
    });
  }
  if (isApplication) {
    resources.push({
      arn: through.replace(/:application-inference-profile\/.*$/, ':inference-profile/*'),
      through,
      why: 'An application profile does not tell which cross-region profile it stands on',
    });
  }
  return resources;
}

/**
 * What a batch job needs: leave to start it with the model, and for the role that Bedrock takes on, leave to use it.
 * Both are asked about the profile and about the model behind it, and the key that binds the one to the other belongs to
 * InvokeModel from outside: `bedrock:CreateModelInvocationJob` does not have it. What bounds them is that only jobs of this
 * account take the role on, and that only one function may hand it to a job.
 */
export function grantBatchModel(starter: Role, serviceRole: Role, settings: Settings): void {
  for (const { arn, why } of modelResources(Stack.of(starter), settings.BEDROCK_MODEL_ID)) {
    const of = {
      resources: [arn],
      ...(why === undefined ? {} : { why: `${why}; only the batch jobs of this stack use it.` }),
    };
    allow(starter, { actions: ['bedrock:CreateModelInvocationJob'], ...of });
    allow(serviceRole, { actions: [INVOKE], ...of });
  }
  // The requests of a job are the judge's own, and name its guardrail.
  grantGuardrail(serviceRole, settings);
}
