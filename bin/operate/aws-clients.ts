/** The AWS clients of the command line and of local runs. */

import { Agent } from 'node:https';
import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { SFNClient } from '@aws-sdk/client-sfn';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { nameOperations } from '../../src/core/errors/aws-failures.ts';

/** Where an emulated AWS listens, and the variables that its users set. */
interface EmulatedAws {
  url: string;
  region: string;
  ca?: string | undefined;
  env: Readonly<Record<string, string | undefined>>;
}

export interface AwsClients {
  s3: S3Client;
  sfn: SFNClient;
  cloudFormation: CloudFormationClient;
  lambda: LambdaClient;
}

/** Creates clients of the emulated AWS. Their configuration is complete, so they use nothing of the caller's shell or profile. */
export function emulatedClients(aws: EmulatedAws): AwsClients {
  const config = {
    endpoint: aws.url,
    region: aws.region,
    credentials: {
      accessKeyId: aws.env.AWS_ACCESS_KEY_ID ?? '',
      secretAccessKey: aws.env.AWS_SECRET_ACCESS_KEY ?? '',
    },
    // If the shell switches these on, the SDK refuses every custom endpoint.
    useFipsEndpoint: false,
    useDualstackEndpoint: false,
    requestHandler: new NodeHttpHandler(aws.ca ? { httpsAgent: new Agent({ ca: aws.ca }) } : {}),
  };
  return {
    s3: new S3Client({ ...config, forcePathStyle: true }),
    sfn: new SFNClient(config),
    cloudFormation: new CloudFormationClient(config),
    lambda: new LambdaClient(config),
  };
}

/** Creates clients from the environment and the shared AWS configuration: for AWS, or for an emulator at `AWS_ENDPOINT_URL`. */
export function environmentClients(): AwsClients {
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
