/** Where each operation of the product is made and checked, so that no check is empty. */
import { awsRequests } from './aws-requests.ts';

/** By test files of the integration level. `states → ` are steps that Step Functions takes itself. */
const CHECKED_IN = {
  'deployed-batch': [
    ...['bedrock:CreateModelInvocationJob', 'bedrock:GetFoundationModel', 'bedrock:GetInferenceProfile'],
    ...['bedrock:GetModelInvocationJob', 'bedrock-runtime:Converse', 'dynamodb:BatchGetItem'],
    ...['dynamodb:GetItem', 'dynamodb:UpdateItem', 's3:GetObject'],
    ...['s3:HeadObject', 's3:ListObjectsV2', 's3:PutObject', 'states → lambda:Invoke'],
    ...['states → s3:GetObject', 'states → s3:PutObject'],
  ],
  'deployed-policies': [
    'dynamodb:BatchWriteItem',
    'lambda:GetAlias',
    'lambda:Invoke',
    'secretsmanager:GetSecretValue',
    'sqs:ChangeMessageVisibility',
    'sqs:SendMessage',
    'stepfunctions:DescribeExecution',
    'stepfunctions:ListExecutions',
    'stepfunctions:StartExecution',
  ],
  'deployed-replay': ['sagemaker-runtime:InvokeEndpoint', 'sagemaker-runtime:InvokeEndpointWithResponseStream'],
  // No deployed run has an object of more than 5 MiB, or a day with 50 runs: these are made on their own.
  'aws-requests': [
    ...['s3:CompleteMultipartUpload', 's3:CreateMultipartUpload', 's3:DeleteObject', 's3:UploadPart'],
    'secretsmanager:CreateSecret',
  ],
};

/** Operations of the product that no test makes. */
const NOT_CHECKED: Record<string, string> = {
  AbortMultipartUpload: 'the SDK makes it after a part has failed, from members of the others',
};

/** The names of all operations in these tables, without their services. */
export const namedOperations = (): string[] => [
  ...Object.values(CHECKED_IN).flatMap((operations) => operations.map((name) => name.split(':')[1] ?? '')),
  ...Object.keys(NOT_CHECKED),
];

/** Returns the operations of a file's table of which this file has made no request so far. */
export async function uncheckedIn(file: keyof typeof CHECKED_IN): Promise<string[]> {
  const counts = await awsRequests.counts();
  return CHECKED_IN[file].filter((operation) => !counts[operation]);
}
