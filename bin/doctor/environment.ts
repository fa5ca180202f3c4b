/** Checks what the settings name beside endpoint, buckets and MLflow: a VPC, keys, secrets, endpoints of replays. */
import { callAws } from '../operate/aws-json.ts';
import { queryAws } from '../operate/aws-query.ts';
import { hasInferenceComponent } from '../operate/sagemaker.ts';
import { checkServing } from './endpoint.ts';
import { checked, type Finding, finding } from './finding.ts';
import type { Ground } from './ground.ts';

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
async function checkVpc({ lambda, settings }: Ground): Promise<Finding[]> {
  const { VPC_SUBNET_IDS: subnets = [], VPC_SECURITY_GROUP_IDS: groups = [] } = settings;
  try {
    const ofSubnets = await queryAws(lambda, 'ec2', 'DescribeSubnets', numbered('SubnetId', subnets));
    const vpcs = [...new Set(ofSubnets('vpcId'))];
    const inVpcs = { 'Filter.1.Name': 'vpc-id', ...numbered('Filter.1.Value', vpcs) };
    const ofGroups = await queryAws(lambda, 'ec2', 'DescribeSecurityGroups', {
      ...numbered('GroupId', groups),
      ...inVpcs,
    });
    const found = ofGroups('groupId');
    if (vpcs.length === 1 && groups.every((id) => found.includes(id))) {
      return [
        finding('ok', 'vpc', `${subnets.length} subnets and ${groups.length} security groups are in ${vpcs[0]}.`),
      ];
    }
    const message = `The subnets and security groups are not in one VPC: the subnets are in ${vpcs.join(', ')}.`;
    return [finding('error', 'vpc', message, 'use those of one VPC in VPC_SUBNET_IDS and VPC_SECURITY_GROUP_IDS')];
  } catch (error) {
    const { name, message } = error as Error;
    if (!name.startsWith('Invalid')) throw error;
    return [finding('error', 'vpc', `${message}.`, 'correct VPC_SUBNET_IDS and VPC_SECURITY_GROUP_IDS')];
  }
}

const isMissing = ({ name }: Error): boolean => name === 'NotFoundException' || name === 'ResourceNotFoundException';

async function checkKey({ lambda }: Ground, setting: string, arn: string): Promise<Finding[]> {
  type Reply = { KeyMetadata?: { KeyState?: string } };
  const reply = await callAws<Reply>(lambda, 'kms', 'DescribeKey', { KeyId: arn }).catch((error: Error) => {
    if (!isMissing(error)) throw error;
    return undefined;
  });
  if (reply === undefined)
    return [finding('error', 'keys', `${setting}: there is no key ${arn}.`, `correct ${setting}`)];
  const state = reply.KeyMetadata?.KeyState;
  if (state === 'Enabled') return [finding('ok', 'keys', `The key of ${setting} is enabled.`)];
  const repair = 'enable it, or cancel its deletion';
  return [
    finding('error', 'keys', `The key of ${setting} is ${state}: nothing can be read or written with it.`, repair),
  ];
}

async function checkSecret({ lambda }: Ground, setting: string, arn: string): Promise<Finding[]> {
  type Reply = { DeletedDate?: number };
  const reply = await callAws<Reply>(lambda, 'secretsmanager', 'DescribeSecret', { SecretId: arn }).catch(
    (error: Error) => {
      if (!isMissing(error)) throw error;
      return undefined;
    },
  );
  if (reply !== undefined && !reply.DeletedDate) return [finding('ok', 'secrets', `The secret of ${setting} exists.`)];
  const what = reply === undefined ? 'there is no secret' : 'it is scheduled for deletion:';
  return [finding('error', 'secrets', `${setting}: ${what} ${arn}.`, `create the secret, or correct ${setting}`)];
}

async function checkReplays(ground: Ground): Promise<Finding[]> {
  const { REPLAY_ENDPOINT_NAMES: endpoints = [], REPLAY_INFERENCE_COMPONENT_NAMES: components = [] } = ground.settings;
  const serving = endpoints.map(
    async (name) => (await checkServing(ground, name, 'REPLAY_ENDPOINT_NAMES', 'replays')).found,
  );
  const existing = components.map(async (name) => {
    if (await hasInferenceComponent(ground.lambda, name)) {
      return finding('ok', 'replays', `The inference component ${name} exists.`);
    }
    const repair = 'correct REPLAY_INFERENCE_COMPONENT_NAMES';
    return finding('error', 'replays', `There is no inference component ${name} in ${ground.region}.`, repair);
  });
  return Promise.all([...serving, ...existing]);
}

/** Only what is set is checked. */
export async function checkEnvironment(ground: Ground): Promise<Finding[]> {
  const { settings } = ground;
  const each = <N extends keyof typeof settings>(
    names: readonly N[],
    check: string,
    action: string,
    make: (ground: Ground, setting: string, arn: string) => Promise<Finding[]>,
  ) =>
    names.flatMap((name) => {
      const arn = settings[name];
      return typeof arn === 'string' ? [checked(check, action, () => make(ground, name, arn))] : [];
    });
  const checks = [
    ...(settings.VPC_SUBNET_IDS?.length
      ? [checked('vpc', 'ec2:DescribeSubnets and ec2:DescribeSecurityGroups', () => checkVpc(ground))]
      : []),
    ...each(KEYS, 'keys', 'kms:DescribeKey', checkKey),
    ...each(SECRETS, 'secrets', 'secretsmanager:DescribeSecret', checkSecret),
    checked('replays', 'sagemaker:DescribeEndpoint and sagemaker:DescribeInferenceComponent', () =>
      checkReplays(ground),
    ),
  ];
  return (await Promise.all(checks)).flat();
}
