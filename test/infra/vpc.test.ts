/** Functions in a VPC: all of them, with permissions that their code cannot use, and the endpoints that they need. */
import { readFileSync } from 'node:fs';
import { ALL_FOLDERS, FOLDERS } from '../helpers/iam-roles.ts';
import { bundlesOf } from '../helpers/sdk-calls.ts';
import { ACCOUNT, denialsOf, policiesOf, REGION, resourcesOfType, templateOf } from '../helpers/synth.ts';

const template = templateOf({
  VPC_SUBNET_IDS: 'subnet-0a1b2c3d, subnet-0123456789abcdef0',
  VPC_SECURITY_GROUP_IDS: 'sg-0a1b2c3d',
});
const functionsOf = (of = template) => Object.values(resourcesOfType(of, 'AWS::Lambda::Function'));

it('connects every function, also the one of the CDK, to the subnets', () => {
  const VpcConfig = { SubnetIds: ['subnet-0a1b2c3d', 'subnet-0123456789abcdef0'], SecurityGroupIds: ['sg-0a1b2c3d'] };
  for (const { Properties } of functionsOf()) expect(Properties).toMatchObject({ VpcConfig });
  expect(functionsOf()).toHaveLength(Object.keys(FOLDERS).length + 1);
  for (const { Properties } of functionsOf(templateOf())) expect(Properties).not.toHaveProperty('VpcConfig');
});

it('lets Lambda manage the network interfaces, and not the code of a function', () => {
  const actions = [
    'ec2:CreateNetworkInterface',
    'ec2:DescribeNetworkInterfaces',
    'ec2:DescribeSubnets',
    'ec2:DeleteNetworkInterface',
    'ec2:AssignPrivateIpAddresses',
    'ec2:UnassignPrivateIpAddresses',
  ];
  const roles = [...Object.keys(FOLDERS), 'CapturesNotifications'].map((step) => `${step}Role`);
  const byCode = { ArnLike: { 'lambda:SourceFunctionArn': `arn:aws:lambda:${REGION}:${ACCOUNT}:function:*` } };
  expect(denialsOf(template)).toEqual(Object.fromEntries(roles.map((role) => [role, [[actions, ['*'], byCode]]])));
  const allowed = Object.entries(policiesOf(template)).filter(([, lines]) =>
    lines.some((line) => JSON.stringify(line) === JSON.stringify([actions, ['*']])),
  );
  expect(allowed.map(([role]) => role).toSorted()).toEqual(roles.toSorted());
});

/** The endpoint of each client, and of what the project calls with its own: https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html */
const ENDPOINTS: Record<string, string> = {
  'client-bedrock': 'com.amazonaws.<region>.bedrock',
  'client-bedrock-runtime': 'com.amazonaws.<region>.bedrock-runtime',
  'client-dynamodb': 'com.amazonaws.<region>.dynamodb',
  'client-lambda': 'com.amazonaws.<region>.lambda',
  'client-s3': 'com.amazonaws.<region>.s3',
  'client-sagemaker-runtime': 'com.amazonaws.<region>.sagemaker.runtime',
  'client-secrets-manager': 'com.amazonaws.<region>.secretsmanager',
  'client-sfn': 'com.amazonaws.<region>.states',
  // https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-interface-endpoint-create.html
  mlflow: 'aws.sagemaker.<region>.experiments',
  sns: 'com.amazonaws.<region>.sns',
  sagemaker: 'com.amazonaws.<region>.sagemaker.api',
  cloudwatch: 'com.amazonaws.<region>.monitoring',
  sqs: 'com.amazonaws.<region>.sqs',
};

it('documents an endpoint for exactly the services that the bundles call', async () => {
  const bundles = Object.values(await bundlesOf(Object.values(ALL_FOLDERS)));
  const called = new Set(bundles.flatMap(({ clients }) => clients));
  if (bundles.some(({ text }) => text.includes('x-sm-mlflow-app-arn'))) called.add('mlflow');
  const texts = { sns: 'TopicArn', sqs: 'QueueUrl', sagemaker: '"DescribeEndpoint"', cloudwatch: '"GetMetricData"' };
  for (const [service, own] of Object.entries(texts)) {
    if (bundles.some(({ text }) => text.includes(own))) called.add(service);
  }
  const documented = [
    ...readFileSync('docs/network-and-keys.md', 'utf8').matchAll(
      /^\| `([\w.]*<region>[\w.-]*)` \| (?:gateway|interface) \|/gm,
    ),
  ].map(([, name]) => name);
  expect(documented.toSorted()).toEqual([...called].map((client) => ENDPOINTS[client] ?? client).toSorted());
});
