/** Permission to ask the judge's model: the one model, through the one profile, and nothing else. */
import type { Stack } from 'aws-cdk-lib';
import { type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Settings } from './settings.ts';

/** Cross-region inference profiles begin with a geography, e.g. `us.`, `eu.`, `apac.`, `global.`. */
const PROFILE = /^(?<geography>[a-z]{2,6}(?:-gov)?)\.(?<model>[a-z0-9-]+\..+)$/;
const PROFILE_ARN = /^arn:[\w-]+:bedrock:[^:]*:[^:]*:(?:application-)?inference-profile\/(?<id>.+)$/;

// Converse is authorised as InvokeModel.
const INVOKE = 'bedrock:InvokeModel';

/** Statements for a model id, an inference-profile id, or an ARN of either. */
export function judgeStatements(stack: Stack, settings: Settings): PolicyStatement[] {
  const { BEDROCK_MODEL_ID: id, BEDROCK_GUARDRAIL_ID: guardrail } = settings;
  const statements = modelStatements(stack, id);
  if (guardrail !== undefined) {
    const arn = `arn:${stack.partition}:bedrock:${stack.region}:${stack.account}:guardrail/${guardrail}`;
    statements.push(new PolicyStatement({ actions: ['bedrock:ApplyGuardrail'], resources: [arn] }));
  }
  if (settings.JUDGE_SECRET_ARN !== undefined) {
    const resources = [settings.JUDGE_SECRET_ARN];
    statements.push(new PolicyStatement({ actions: ['secretsmanager:GetSecretValue'], resources }));
  }
  return statements;
}

function modelStatements(stack: Stack, id: string): PolicyStatement[] {
  const { partition, region, account } = stack;
  // A judge outside Bedrock.
  if (id.startsWith('openai:/')) return [];
  if (id.startsWith('sagemaker:/')) {
    const endpoint = id.replace(/^sagemaker:\/+/, '').toLowerCase();
    const arn = `arn:${partition}:sagemaker:${region}:${account}:endpoint/${endpoint}`;
    return [new PolicyStatement({ actions: ['sagemaker:InvokeEndpoint'], resources: [arn] })];
  }
  const arnMatch = PROFILE_ARN.exec(id);
  if (id.startsWith('arn:') && arnMatch === null) {
    return [new PolicyStatement({ actions: [INVOKE], resources: [id] })];
  }
  const profile = PROFILE.exec(arnMatch?.groups?.id ?? id);
  if (arnMatch === null && profile === null) {
    const arn = `arn:${partition}:bedrock:${region}::foundation-model/${id}`;
    return [new PolicyStatement({ actions: [INVOKE], resources: [arn] })];
  }
  const profileArn = arnMatch ? id : `arn:${partition}:bedrock:${region}:${account}:inference-profile/${id}`;
  // An application profile does not tell its model; the condition still ties every call to the profile.
  const model = profile?.groups?.model ?? '*';
  const conditions = { StringEquals: { 'bedrock:InferenceProfileArn': profileArn } };
  const statements = [
    new PolicyStatement({ actions: [INVOKE], resources: [profileArn] }),
    // The profile routes to regions of its geography; which ones is Bedrock's to say, and changes.
    new PolicyStatement({
      actions: [INVOKE],
      resources: [`arn:${partition}:bedrock:*::foundation-model/${model}`],
      conditions,
    }),
  ];
  if (profile?.groups?.geography === 'global') {
    const resources = [`arn:${partition}:bedrock:::foundation-model/${model}`];
    statements.push(new PolicyStatement({ actions: [INVOKE], resources, conditions }));
  }
  return statements;
}

export function grantJudge(stack: Stack, grantee: IGrantable, settings: Settings): void {
  for (const statement of judgeStatements(stack, settings)) grantee.grantPrincipal.addToPrincipalPolicy(statement);
}
