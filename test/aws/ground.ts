/** What the canary needs besides the stack: a bucket for captures and a small endpoint for replays, as one stack. */
import {
  CreateStackCommand,
  DeleteStackCommand,
  DescribeStacksCommand,
  waitUntilStackCreateComplete,
  waitUntilStackDeleteComplete,
} from '@aws-sdk/client-cloudformation';
import type { Canary } from './canary.ts';

/** Answers like a chat model, so that replies can be compared. */
const ENDPOINT_CODE = `exports.handler = async (event) => ({
  statusCode: 200,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Water them in the morning.' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 6, total_tokens: 16 },
  }),
});`;

const WAIT_SECONDS = 600;

const functionName = (prefix: string): string => `${prefix}-endpoint`;
export const groundName = (prefix: string): string => `InferenceMonitorCanary-${prefix}`;

const BUCKET = {
  Captures: {
    Type: 'AWS::S3::Bucket',
    Properties: {
      PublicAccessBlockConfiguration: {
        BlockPublicAcls: true,
        BlockPublicPolicy: true,
        IgnorePublicAcls: true,
        RestrictPublicBuckets: true,
      },
    },
  },
};

/** The URL is public for as long as the canary runs. It answers every request with the same few words. */
const endpointResources = (prefix: string) => ({
  Logs: { Type: 'AWS::Logs::LogGroup', Properties: { LogGroupName: `/aws/lambda/${functionName(prefix)}` } },
  Role: {
    Type: 'AWS::IAM::Role',
    Properties: {
      AssumeRolePolicyDocument: {
        Version: '2012-10-17',
        Statement: [{ Effect: 'Allow', Principal: { Service: 'lambda.amazonaws.com' }, Action: 'sts:AssumeRole' }],
      },
    },
  },
  Endpoint: {
    Type: 'AWS::Lambda::Function',
    DependsOn: 'Logs',
    Properties: {
      FunctionName: functionName(prefix),
      Runtime: 'nodejs24.x',
      Handler: 'index.handler',
      Role: { 'Fn::GetAtt': ['Role', 'Arn'] },
      Code: { ZipFile: ENDPOINT_CODE },
    },
  },
  Url: {
    Type: 'AWS::Lambda::Url',
    Properties: { AuthType: 'NONE', TargetFunctionArn: { 'Fn::GetAtt': ['Endpoint', 'Arn'] } },
  },
  // New function URLs need both permissions.
  UrlPermission: permission('lambda:InvokeFunctionUrl', { FunctionUrlAuthType: 'NONE' }),
  CallPermission: permission('lambda:InvokeFunction', { InvokedViaFunctionUrl: true }),
});

function permission(Action: string, more: object): object {
  const FunctionName = { 'Fn::GetAtt': ['Endpoint', 'Arn'] };
  return { Type: 'AWS::Lambda::Permission', Properties: { FunctionName, Action, Principal: '*', ...more } };
}

/** Returns the template. @param ownEndpoint whether replays need an endpoint of the canary's own */
export const groundTemplate = (prefix: string, ownEndpoint: boolean): object => ({
  Resources: { ...BUCKET, ...(ownEndpoint ? endpointResources(prefix) : {}) },
  Outputs: {
    Bucket: { Value: { Ref: 'Captures' } },
    ...(ownEndpoint ? { Url: { Value: { 'Fn::GetAtt': ['Url', 'FunctionUrl'] } } } : {}),
  },
});

/** Creates the stack, and records the bucket and the URL. */
export async function makeGround(canary: Canary): Promise<void> {
  const { prefix, endpoint, url } = canary.state;
  const client = canary.clients.cloudFormation;
  const StackName = groundName(prefix);
  const create = client.send(
    new CreateStackCommand({
      StackName,
      TemplateBody: JSON.stringify(groundTemplate(prefix, !endpoint && !url)),
      Capabilities: ['CAPABILITY_IAM'],
      Tags: [{ Key: 'sagemaker-inference-monitor', Value: prefix }],
    }),
  );
  // A canary that was left while it waited has begun.
  await create.catch((error: Error) => {
    if (error.name !== 'AlreadyExistsException') throw error;
  });
  await waitUntilStackCreateComplete({ client, maxWaitTime: WAIT_SECONDS, minDelay: 1 }, { StackName });
  const { Stacks } = await client.send(new DescribeStacksCommand({ StackName }));
  for (const { OutputKey, OutputValue } of Stacks?.[0]?.Outputs ?? []) {
    if (OutputKey === 'Bucket') canary.fact('captureBucket', OutputValue);
    if (OutputKey === 'Url') canary.fact('endpointUrl', OutputValue);
  }
}

/** Deletes a stack and waits. A stack that does not exist is deleted. */
export async function deleteStack(canary: Canary, StackName: string): Promise<void> {
  const client = canary.clients.cloudFormation;
  await client.send(new DeleteStackCommand({ StackName }));
  await waitUntilStackDeleteComplete({ client, maxWaitTime: 2 * WAIT_SECONDS, minDelay: 1 }, { StackName });
}
