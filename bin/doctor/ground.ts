/** What the checks of `doctor` share: the settings, and clients that do not make a person wait. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { nameOperations } from '../../src/core/errors/aws-failures.ts';
import type { CheckedSettings } from '../../src/core/settings/schema.ts';

export interface Clients {
  bedrock: BedrockClient;
  cloudFormation: CloudFormationClient;
  /** Also for services without a client of their own (bin/operate/aws-json.ts). */
  lambda: LambdaClient;
  s3: S3Client;
}

export interface Ground extends Clients {
  region: string;
  /** The valid ones, with defaults. */
  settings: Partial<CheckedSettings>;
  /** Ends with `/`. */
  capturePrefix: string | undefined;
}

const QUICK = { maxAttempts: 2, requestHandler: { connectionTimeout: 5_000 } };

export function quickClients(region: string | undefined): Clients {
  const aws = { ...QUICK, ...(region === undefined ? {} : { region }) };
  const emulated = process.env.AWS_ENDPOINT_URL ?? process.env.AWS_ENDPOINT_URL_S3;
  return {
    bedrock: nameOperations(new BedrockClient(aws)),
    cloudFormation: nameOperations(new CloudFormationClient(aws)),
    lambda: nameOperations(new LambdaClient(aws)),
    s3: nameOperations(new S3Client({ ...aws, forcePathStyle: emulated !== undefined })),
  };
}
