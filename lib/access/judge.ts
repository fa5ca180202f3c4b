/** Permission to call only the judge's model through this profile. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../../src/core/settings/schema.ts';
import { functionArn, isAlias } from '../../src/core/settings/scorer-functions-setting.ts';
import { firstModel, judgeModels, parseJudgeId, splitEndpoint } from '../../src/judge/judge-id.ts';
import { type ProfileId, parseProfileId } from '../../src/judge/models/profile-id.ts';
import { readParameters } from '../../src/judge/parameters.ts';
import { allow, arnIn, componentArns, endpointArn, grantSecret } from './allow.ts';

const PROFILE_ARN = /^arn:[\w-]+:bedrock:[^:]*:[^:]*:(?:application-)?inference-profile\/(?<id>.+)$/;

// IAM authorizes Converse as InvokeModel.
const INVOKE = 'bedrock:InvokeModel';

/** Grants calls to the judge, and with `cascade` to the model that is asked before it; or the secret of another judge. */
export function grantJudge(role: Role, settings: Settings, { cascade = false } = {}): void {
  for (const id of cascade ? judgeModels(settings) : [settings.BEDROCK_MODEL_ID]) grantModel(role, id);
  grantGuardrail(role, settings);
  grantSecret(role, settings.JUDGE_SECRET_ARN);
}

/** Grants the invocation of the functions of scorers, in the version that a run keeps. */
export function grantFunctions(role: Role, { SCORER_FUNCTIONS }: Settings): void {
  for (const { arn: named } of Object.values(SCORER_FUNCTIONS)) {
    const { arn, qualifier } = functionArn(named);
    const resources = isAlias(qualifier) ? [named, `${arn}:*`] : [named];
    const why = 'Which version the alias of this function points to is known when a run is planned.';
    allow(role, { actions: ['lambda:InvokeFunction'], resources, why });
  }
}

/** Grants asking Lambda for the versions of functions that are named by an alias. */
export function grantFunctionLookUp(role: Role, { SCORER_FUNCTIONS }: Settings): void {
  for (const { arn: named } of Object.values(SCORER_FUNCTIONS)) {
    const { arn, qualifier } = functionArn(named);
    if (isAlias(qualifier)) allow(role, { actions: ['lambda:GetAlias'], resources: [arn, named] });
  }
}

/** Grants calls to a Bedrock model or inference profile (id or ARN), or to an endpoint. */
function grantModel(role: Role, id: string): void {
  if (id.startsWith('sagemaker:/')) {
    const { endpoint, component } = splitEndpoint(parseJudgeId(id).name);
    const resources = [endpointArn(role, endpoint), ...componentArns(role, component === undefined ? [] : [component])];
    allow(role, { actions: ['sagemaker:InvokeEndpoint'], resources });
  }
  for (const { arn, through, why } of modelResources(Stack.of(role), id)) {
    allow(role, {
      actions: [INVOKE],
      resources: [arn],
      // The models behind a profile may be invoked only through that profile.
      conditions: through === undefined ? undefined : { StringEquals: { 'bedrock:InferenceProfileArn': through } },
      why: why && `${why}; only calls through the profile of the condition are allowed.`,
    });
  }
}

function grantGuardrail(role: Role, { MLFLOW_EVALUATION_MODEL_PARAM: given }: Settings): void {
  const { guardrail } = readParameters(given);
  if (guardrail === undefined) return;
  const actions = ['bedrock:ApplyGuardrail'];
  const { partition, account } = Stack.of(role);
  allow(role, { actions, resources: [arnIn(role, 'bedrock', `guardrail/${guardrail.id}`)] });
  allow(role, {
    actions,
    resources: [`arn:${partition}:bedrock:*:${account}:guardrail-profile/*`],
    why: 'A guardrail with cross-Region inference is applied through a profile of its geography, in any of its regions.',
  });
}

/** Grants the check whether the model exists and when it will be retired, which planning reports. */
export function grantModelLookUp(role: Role, id: string): void {
  const stack = Stack.of(role);
  // A judge outside Bedrock and a custom model have no life cycle on Bedrock.
  if (/^(openai|sagemaker):\//.test(id)) return;
  const profile = profileOf(id);
  const arn = namedArn(stack, id, profile);
  if (profile) allow(role, { actions: ['bedrock:GetInferenceProfile'], resources: [arn] });
  else if (!arn.includes(':foundation-model/')) return;
  allow(role, {
    actions: ['bedrock:GetFoundationModel'],
    resources: [profile ? modelIn(stack, stack.region, profile.model) : arn],
    // Ignored without a wildcard.
    why: 'An application profile does not reveal its model; the readable facts of a model are public.',
  });
}

/** The parts of an inference profile's id or ARN; empty for an application profile, `undefined` if the id is not a profile. */
function profileOf(id: string): Partial<ProfileId> | undefined {
  const arnMatch = PROFILE_ARN.exec(id);
  if (id.startsWith('arn:') && arnMatch === null) return undefined;
  return parseProfileId(arnMatch?.groups?.id ?? id) ?? (arnMatch === null ? undefined : {});
}

const modelIn = ({ partition }: Stack, region: string, model = '*'): string =>
  `arn:${partition}:bedrock:${region}::foundation-model/${model}`;

/** The ARN of the model or the profile that an id names. */
function namedArn(stack: Stack, id: string, profile: Partial<ProfileId> | undefined): string {
  if (id.startsWith('arn:')) return id;
  return profile ? arnIn(stack, 'bedrock', `inference-profile/${id}`) : modelIn(stack, stack.region, id);
}

/** An ARN that IAM checks when a model is used. */
interface ModelResource {
  arn: string;
  /** The inference profile through which it is called; `undefined` for the resource that the id names. */
  through?: string;
  /** The reason for a wildcard in the ARN, without a period. */
  why?: string;
}

/** The Bedrock model or profile that an id names, and the resources behind it; empty for a judge outside Bedrock. */
function modelResources(stack: Stack, id: string): ModelResource[] {
  if (/^(openai|sagemaker):\//.test(id)) return [];
  const profile = profileOf(id);
  const through = namedArn(stack, id, profile);
  if (profile === undefined) return [{ arn: through }];
  const isApplication = profile.model === undefined;
  const isGlobal = isApplication || profile.geography === 'global';
  const why = isApplication
    ? 'An application profile reveals neither its model, nor the regions that it routes to, nor the cross-region profile behind it'
    : 'The profile routes to regions of its geography, which Bedrock chooses';
  const behind = [
    ...(isGlobal ? ['*', ''] : ['*']).map((region) => modelIn(stack, region, profile.model)),
    ...(isApplication ? [through.replace(/:application-inference-profile\/.*$/, ':inference-profile/*')] : []),
  ];
  return [{ arn: through }, ...behind.map((arn) => ({ arn, through, why }))];
}

/**
 * Grants a batch job's permissions: to start it with the model, and to use the model in the role that Bedrock assumes.
 * IAM checks the profile and the model behind it in both cases. The condition key that ties the model to the profile does not
 * exist for `bedrock:CreateModelInvocationJob`. Instead, only jobs of this account can assume the role, and only one
 * function can pass it to a job.
 */
export function grantBatchModel(starter: Role, serviceRole: Role, settings: Settings): void {
  for (const { arn, why } of modelResources(Stack.of(starter), firstModel(settings))) {
    const model = { resources: [arn], why: why && `${why}; only the batch jobs of this stack use it.` };
    allow(starter, { actions: ['bedrock:CreateModelInvocationJob'], ...model });
    allow(serviceRole, { actions: [INVOKE], ...model });
  }
  // The requests of a job name the judge's guardrail.
  grantGuardrail(serviceRole, settings);
}
