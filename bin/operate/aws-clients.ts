/** The AWS clients of the command line. */

import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { SFNClient } from '@aws-sdk/client-sfn';
import { nameOperations } from '../../src/core/errors/aws-failures.ts';

export type AwsClients = ReturnType<typeof environmentClients>;

/** Creates clients from the environment and the shared AWS configuration: for AWS, or for an emulator at `AWS_ENDPOINT_URL`. */
export function environmentClients() {
  return {
    // An emulator's address has no subdomains for buckets.
    s3: nameOperations(new S3Client(process.env.AWS_ENDPOINT_URL ? { forcePathStyle: true } : {})),
    sfn: nameOperations(new SFNClient({})),
    cloudFormation: nameOperations(new CloudFormationClient({})),
    lambda: nameOperations(new LambdaClient({})),
  };
}

export function destroyClients(clients: AwsClients): void {
  for (const client of Object.values(clients)) client.destroy();
}
