/** The AWS clients of the command line. */

import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { LambdaClient, type LambdaClientConfig } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { SFNClient } from '@aws-sdk/client-sfn';
import { nameOperations } from '../../src/core/errors/aws-failures.ts';

export type AwsClients = ReturnType<typeof environmentClients>;

/**
 * Creates clients from the environment and the shared AWS configuration: for AWS, or for an emulator at `AWS_ENDPOINT_URL`.
 *
 * @param aws takes precedence
 */
export function environmentClients(aws: Omit<LambdaClientConfig, 'extensions'> = {}) {
  // An emulator's address has no subdomains for buckets.
  const forcePathStyle = Boolean(aws.endpoint ?? process.env.AWS_ENDPOINT_URL ?? process.env.AWS_ENDPOINT_URL_S3);
  return {
    s3: nameOperations(new S3Client({ ...aws, forcePathStyle })),
    sfn: nameOperations(new SFNClient(aws)),
    cloudFormation: nameOperations(new CloudFormationClient(aws)),
    lambda: nameOperations(new LambdaClient(aws)),
  };
}
