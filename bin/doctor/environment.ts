/**
 * Checks the resources in the settings other than endpoint, buckets and MLflow: a VPC, keys, secrets, endpoints of
 * replays.
 */

import { callAws } from '../../src/core/aws/aws-json.ts';
import { queryAws } from '../../src/core/aws/aws-query.ts';
import { describeKey, orMissing, SERVICE } from '../operate/aws-calls.ts';
import { checkServing } from './endpoint.ts';
import { broken, type CheckContext, type Found, ok } from './finding.ts';

const numbered = (name: string, ids: readonly string[]): Record<string, string> =>
  Object.fromEntries(ids.map((id, index) => [`${name}.${index + 1}`, id]));

/** Subnets and security groups exist, all in one VPC. */
export async function checkVpc({ lambda, settings }: CheckContext, subnets: readonly string[]): Promise<Found> {
  const { VPC_SECURITY_GROUP_IDS: groups = [] } = settings;
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

export async function checkKey({ lambda }: CheckContext, KeyId: string, setting: string): Promise<Found> {
  const key = await describeKey(lambda, KeyId).catch(orMissing);
  if (key === undefined) return broken(`${setting}: there is no key ${KeyId}.`, `correct ${setting}`);
  const { KeyState: state } = key;
  if (state === 'Enabled') return ok(`The key of ${setting} is enabled.`);
  const message = `The key of ${setting} is ${state}: nothing can be read or written with it.`;
  return broken(message, 'enable it, or cancel its deletion');
}

/** Checks a secret, and the key that encrypts it if that is not Secrets Manager's own. */
export async function checkSecret(context: CheckContext, SecretId: string, setting: string): Promise<Found> {
  type Reply = { DeletedDate?: number; KmsKeyId?: string };
  const reply = await callAws<Reply>(context.lambda, 'secretsmanager', 'DescribeSecret', { SecretId }).catch(orMissing);
  if (reply !== undefined && !reply.DeletedDate) {
    return [
      ok(`The secret of ${setting} exists.`),
      !!reply.KmsKeyId && (await checkKey(context, reply.KmsKeyId, setting)),
    ];
  }
  const what = reply === undefined ? 'there is no secret' : 'it is scheduled for deletion:';
  return broken(`${setting}: ${what} ${SecretId}.`, `create the secret, or correct ${setting}`);
}

export const checkReplayEndpoints = (context: CheckContext, names: readonly string[]): Promise<Found> =>
  Promise.all(names.map(async (name) => (await checkServing(context, name, 'REPLAY_ENDPOINT_NAMES')).found));

export const checkReplayComponents = ({ lambda, region }: CheckContext, names: readonly string[]): Promise<Found> =>
  Promise.all(
    names.map(async (name) => {
      const asked = { InferenceComponentName: name };
      const found = await callAws<object>(lambda, SERVICE, 'DescribeInferenceComponent', asked).catch(orMissing);
      if (found) return ok(`The inference component ${name} exists.`);
      const message = `There is no inference component ${name} in ${region}.`;
      return broken(message, 'correct REPLAY_INFERENCE_COMPONENT_NAMES');
    }),
  );
