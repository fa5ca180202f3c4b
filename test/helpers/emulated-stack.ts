/** Small stacks in the emulated AWS, with functions whose code is in the template. */
import {
  type CloudFormationClient,
  CreateStackCommand,
  DescribeStacksCommand,
  waitUntilStackCreateComplete,
} from '@aws-sdk/client-cloudformation';

const Role = {
  Type: 'AWS::IAM::Role',
  Properties: {
    AssumeRolePolicyDocument: {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { Service: ['lambda.amazonaws.com', 'states.amazonaws.com'] },
          Action: 'sts:AssumeRole',
        },
      ],
    },
  },
};
export const ROLE_ARN = { 'Fn::GetAtt': ['Role', 'Arn'] };

export const inlineFunction = (FunctionName: string, ZipFile: string, Timeout = 60): object => ({
  Type: 'AWS::Lambda::Function',
  Properties: {
    Runtime: 'nodejs24.x',
    Handler: 'index.handler',
    Role: ROLE_ARN,
    Timeout,
    FunctionName,
    Code: { ZipFile },
  },
});

/** @param outputs names of resources by the names of outputs. @returns what they refer to */
export async function createStack(
  client: CloudFormationClient,
  StackName: string,
  resources: object,
  outputs: Record<string, string>,
): Promise<Record<string, string>> {
  const values = Object.entries(outputs).map(([name, resource]) => [name, { Value: { Ref: resource } }]);
  const template = { Resources: { Role, ...resources }, Outputs: Object.fromEntries(values) };
  const TemplateBody = JSON.stringify(template);
  await client.send(new CreateStackCommand({ StackName, TemplateBody, Capabilities: ['CAPABILITY_IAM'] }));
  await waitUntilStackCreateComplete({ client, maxWaitTime: 60, minDelay: 1, maxDelay: 1 }, { StackName });
  const { Stacks } = await client.send(new DescribeStacksCommand({ StackName }));
  return Object.fromEntries((Stacks?.[0]?.Outputs ?? []).map((o) => [o.OutputKey ?? '', o.OutputValue ?? '']));
}
