/** Permission to ask the judge's model: the one model, through the one profile, and nothing else. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { allow, type Permission } from './allow.ts';
import type { Settings } from './settings.ts';

/** Cross-region inference profiles begin with a geography, e.g. `us.`, `eu.`, `apac.`, `global.`. */
const PROFILE = /^(?<geography>[a-z]{2,6}(?:-gov)?)\.(?<model>[a-z0-9-]+\..+)$/;
const PROFILE_ARN = /^arn:[\w-]+:bedrock:[^:]*:[^:]*:(?:application-)?inference-profile\/(?<id>.+)$/;

// Converse is authorised as InvokeModel.
const INVOKE = 'bedrock:InvokeModel';

/** For a model id, an inference-profile id or an ARN of either, on Bedrock; for an endpoint; for a key elsewhere. */
export function grantJudge(role: Role, settings: Settings): void {
  const { BEDROCK_MODEL_ID: id, BEDROCK_GUARDRAIL_ID: guardrail, JUDGE_SECRET_ARN: secret } = settings;
  const stack = Stack.of(role);
  grantModel(role, id);
  if (guardrail !== undefined) {
    const arn = `arn:${stack.partition}:bedrock:${stack.region}:${stack.account}:guardrail/${guardrail}`;
    allow(role, { actions: ['bedrock:ApplyGuardrail'], resources: [arn] });
  }
  if (secret !== undefined) allow(role, { actions: ['secretsmanager:GetSecretValue'], resources: [secret] });
}

/** Looking up whether the model is there and when it ends: what planning tells a person. */
export function grantModelLookUp(role: Role, id: string): void {
  const { partition, region, account } = Stack.of(role);
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
  const profileArn = id.startsWith('arn:')
    ? id
    : `arn:${partition}:bedrock:${region}:${account}:inference-profile/${id}`;
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
function profileOf(id: string): { geography?: string; model?: string } | undefined {
  const arnMatch = PROFILE_ARN.exec(id);
  if (id.startsWith('arn:') && arnMatch === null) return undefined;
  const match = PROFILE.exec(arnMatch?.groups?.id ?? id);
  return match?.groups ?? (arnMatch === null ? undefined : {});
}

/** The model alone: what a batch job needs of it. */
export function grantModel(role: Role, id: string): void {
  for (const permission of modelPermissions(Stack.of(role), id)) allow(role, permission);
}

function modelPermissions(stack: Stack, id: string): Permission[] {
  const { partition, region, account } = stack;
  // A judge outside AWS.
  if (id.startsWith('openai:/')) return [];
  if (id.startsWith('sagemaker:/')) {
    // As IAM spells endpoints, whatever their own case.
    const endpoint = id.replace(/^sagemaker:\/+/, '').toLowerCase();
    const arn = `arn:${partition}:sagemaker:${region}:${account}:endpoint/${endpoint}`;
    return [{ actions: ['sagemaker:InvokeEndpoint'], resources: [arn] }];
  }
  const profile = profileOf(id);
  if (profile === undefined) {
    const arn = id.startsWith('arn:') ? id : `arn:${partition}:bedrock:${region}::foundation-model/${id}`;
    return [{ actions: [INVOKE], resources: [arn] }];
  }
  const profileArn = id.startsWith('arn:')
    ? id
    : `arn:${partition}:bedrock:${region}:${account}:inference-profile/${id}`;
  return [{ actions: [INVOKE], resources: [profileArn] }, ...throughProfile(stack, profileArn, profile)];
}

/** What a profile stands on may be invoked through that profile alone. */
function throughProfile(
  { partition }: Stack,
  profileArn: string,
  profile: { geography?: string; model?: string },
): Permission[] {
  const conditions = { StringEquals: { 'bedrock:InferenceProfileArn': profileArn } };
  const bound = 'calls through the one profile of the condition are allowed';
  // An application profile tells neither its model nor the cross-region profile it may stand on.
  const isApplication = profile.model === undefined;
  const model = profile.model ?? '*';
  const permissions: Permission[] = [
    {
      actions: [INVOKE],
      resources: [`arn:${partition}:bedrock:*::foundation-model/${model}`],
      conditions,
      why: isApplication
        ? `An application profile does not tell its model, nor the regions it routes to; ${bound}.`
        : `The profile routes to regions of its geography, and which ones is Bedrock's to say; ${bound}.`,
    },
  ];
  if (isApplication || profile.geography === 'global') {
    permissions.push({
      actions: [INVOKE],
      resources: [`arn:${partition}:bedrock:::foundation-model/${model}`],
      conditions,
      ...(isApplication ? { why: `An application profile does not tell its model; ${bound}.` } : {}),
    });
  }
  if (isApplication) {
    permissions.push({
      actions: [INVOKE],
      resources: [profileArn.replace(/:application-inference-profile\/.*$/, ':inference-profile/*')],
      conditions,
      why: `An application profile does not tell which cross-region profile it stands on; ${bound}.`,
    });
  }
  return permissions;
}
