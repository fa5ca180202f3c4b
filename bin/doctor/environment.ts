/** Checks what the settings name beside endpoint, buckets and MLflow: a VPC, keys, secrets, endpoints of replays. */

import { callAws } from '../../src/core/aws/aws-json.ts';
import { hasInferenceComponent, queryAws } from '../operate/aws-calls.ts';
import { checkServing } from './endpoint.ts';
import { broken, type Check, type CheckContext, type Found, ok } from './finding.ts';

const KEYS = [
  'DATA_CAPTURE_KMS_KEY_ARN',
  'WORK_KMS_KEY_ARN',
  'MLFLOW_ARTIFACT_KMS_KEY_ARN',
  'SECRETS_KMS_KEY_ARN',
] as const;
const SECRETS = ['MLFLOW_SECRET_ARN', 'JUDGE_SECRET_ARN', 'REPLAY_HEADERS_SECRET_ARN', 'ARTHUR_SECRET_ARN'] as const;

const numbered = (name: string, ids: readonly string[]): Record<string, string> =>
  Object.fromEntries(ids.map((id, index) => [`${name}.${index + 1}`, id]));

/** Subnets and security groups exist, all in one VPC. */
async function checkVpc({ lambda, settings }: CheckContext): Promise<Found> {
  const { VPC_SUBNET_IDS: subnets = [], VPC_SECURITY_GROUP_IDS: groups = [] } = settings;
  try {
    const ofSubnets = await queryAws(lambda, 'ec2', 'DescribeSubnets', numbered('SubnetId', subnets));
    const vpcs = [...new Set(ofSubnets('vpcId'))];
    const inVpcs = { 'Filter.1.Name': 'vpc-id', ...numbered('Filter.1.Value', vpcs) };
    const ids = { ...numbered('GroupId', groups), ...inVpcs };
    const found = (await queryAws(lambda, 'ec2', 'DescribeSecurityGroups', ids))('groupId');
    if (vpcs.length === 1 && groups.every((id) => found.includes(id))) {
      return ok(`${subnets.length} subnets and ${groups.length} security groups are in ${vpcs[0]}.`);
    }
    const message = `The subnets and security groups are not in one VPC: the subnets are in ${vpcs.join(', ')}.`;
    return broken(message, 'use those of one VPC in VPC_SUBNET_IDS and VPC_SECURITY_GROUP_IDS');
  } catch (error) {
    const { name, message } = error as Error;
    if (!name.startsWith('Invalid')) throw error;
    return broken(`${message}.`, 'correct VPC_SUBNET_IDS and VPC_SECURITY_GROUP_IDS');
  }
}

const orMissing = (error: Error): undefined => {
  if (error.name !== 'NotFoundException' && error.name !== 'ResourceNotFoundException') throw error;
};

async function checkKey({ lambda }: CheckContext, setting: string, KeyId: string): Promise<Found> {
  type Reply = { KeyMetadata?: { KeyState?: string } };
  const reply = await callAws<Reply>(lambda, 'kms', 'DescribeKey', { KeyId }).catch(orMissing);
  if (reply === undefined) return broken(`${setting}: there is no key ${KeyId}.`, `correct ${setting}`);
  const state = reply.KeyMetadata?.KeyState;
  if (state === 'Enabled') return ok(`The key of ${setting} is enabled.`);
  const message = `The key of ${setting} is ${state}: nothing can be read or written with it.`;
  return broken(message, 'enable it, or cancel its deletion');
}

async function checkSecret({ lambda }: CheckContext, setting: string, SecretId: string): Promise<Found> {
  type Reply = { DeletedDate?: number };
  const reply = await callAws<Reply>(lambda, 'secretsmanager', 'DescribeSecret', { SecretId }).catch(orMissing);
  if (reply !== undefined && !reply.DeletedDate) return ok(`The secret of ${setting} exists.`);
  const what = reply === undefined ? 'there is no secret' : 'it is scheduled for deletion:';
  return broken(`${setting}: ${what} ${SecretId}.`, `create the secret, or correct ${setting}`);
}

async function checkReplays(context: CheckContext): Promise<Found> {
  const { REPLAY_ENDPOINT_NAMES: endpoints = [], REPLAY_INFERENCE_COMPONENT_NAMES: components = [] } = context.settings;
  const serving = endpoints.map(async (name) => (await checkServing(context, name, 'REPLAY_ENDPOINT_NAMES')).found);
  const existing = components.map(async (name) => {
    if (await hasInferenceComponent(context.lambda, name)) return ok(`The inference component ${name} exists.`);
    const message = `There is no inference component ${name} in ${context.region}.`;
    return broken(message, 'correct REPLAY_INFERENCE_COMPONENT_NAMES');
  });
  return Promise.all([...serving, ...existing]);
}

/** Only what is set is checked. */
export function environmentChecks({ settings }: CheckContext): Check<CheckContext>[] {
  const each = (
    names: readonly (keyof typeof settings)[],
    check: string,
    action: string,
    make: (context: CheckContext, setting: string, arn: string) => Promise<Found>,
  ): Check<CheckContext>[] =>
    names.flatMap((name) => {
      const arn = settings[name];
      return typeof arn === 'string' ? [[check, action, (context: CheckContext) => make(context, name, arn)]] : [];
    });
  const hasVpc = settings.VPC_SUBNET_IDS?.length;
  return [
    ...(hasVpc ? [['vpc', 'ec2:DescribeSubnets and ec2:DescribeSecurityGroups', checkVpc] as const] : []),
    ...each(KEYS, 'keys', 'kms:DescribeKey', checkKey),
    ...each(SECRETS, 'secrets', 'secretsmanager:DescribeSecret', checkSecret),
    ['replays', 'sagemaker:DescribeEndpoint and sagemaker:DescribeInferenceComponent', checkReplays],
  ];
}
