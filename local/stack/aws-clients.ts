/** The AWS clients that the local commands use. */
import { Agent } from 'node:https';
import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { SFNClient } from '@aws-sdk/client-sfn';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import type { MiniStack } from '../servers/ministack.ts';

export interface AwsClients {
  s3: S3Client;
  sfn: SFNClient;
  cloudFormation: CloudFormationClient;
  lambda: LambdaClient;
}

/** Clients of the emulated AWS. Their configuration is complete, so that nothing of the caller's shell or profile is used. */
export function emulatedClients(ministack: Pick<MiniStack, 'url' | 'region' | 'ca' | 'env'>): AwsClients {
  const config = {
    endpoint: ministack.url,
    region: ministack.region,
    credentials: {
      accessKeyId: ministack.env.AWS_ACCESS_KEY_ID ?? '',
      secretAccessKey: ministack.env.AWS_SECRET_ACCESS_KEY ?? '',
    },
    // A shell that has these switched on makes the SDK refuse every endpoint of one's own.
    useFipsEndpoint: false,
    useDualstackEndpoint: false,
    ...(ministack.ca ? { requestHandler: new NodeHttpHandler({ httpsAgent: new Agent({ ca: ministack.ca }) }) } : {}),
  };
  return {
    s3: new S3Client({ ...config, forcePathStyle: true }),
    sfn: new SFNClient(config),
    cloudFormation: new CloudFormationClient(config),
    lambda: new LambdaClient(config),
  };
}

/** Clients as the environment and the shared AWS configuration say: AWS itself, or an emulator by `AWS_ENDPOINT_URL`. */
export function environmentClients(): AwsClients {
  // An emulator answers on an address of its own, which has no subdomains for buckets.
  const s3 = new S3Client(process.env.AWS_ENDPOINT_URL ? { forcePathStyle: true } : {});
  return {
    s3,
    sfn: new SFNClient({}),
    cloudFormation: new CloudFormationClient({}),
    lambda: new LambdaClient({}),
  };
}

export function destroyClients(clients: AwsClients): void {
  clients.s3.destroy();
  clients.sfn.destroy();
  clients.cloudFormation.destroy();
  clients.lambda.destroy();
}
