/** Connects functions to the subnets that the settings name. Nothing is looked up, so that synth needs no credentials. */
import { type CfnResource, Stack } from 'aws-cdk-lib';
import { Effect, PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow } from './access/allow.ts';

/** What Lambda does with the function's role: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html */
const NETWORK_INTERFACES = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
];

/** @param resource the function in the template, which only this role runs */
export function connectToVpc(resource: CfnResource, role: Role, settings: Settings): void {
  const { VPC_SUBNET_IDS: SubnetIds, VPC_SECURITY_GROUP_IDS: SecurityGroupIds } = settings;
  if (SubnetIds.length === 0) return;
  resource.addPropertyOverride('VpcConfig', { SubnetIds, SecurityGroupIds });
  allow(role, {
    actions: NETWORK_INTERFACES,
    resources: ['*'],
    why: 'Lambda creates the network interfaces of functions, and requires these permissions on all resources.',
  });
  const { partition, region, account } = Stack.of(role);
  // Lambda itself needs them, the function's code does not. Only requests of the code name the function.
  role.addToPolicy(
    new PolicyStatement({
      effect: Effect.DENY,
      actions: NETWORK_INTERFACES,
      resources: ['*'],
      conditions: {
        ArnLike: { 'lambda:SourceFunctionArn': `arn:${partition}:lambda:${region}:${account}:function:*` },
      },
    }),
  );
}
