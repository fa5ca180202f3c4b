/** What the checks of `doctor` share: the settings, and clients that do not make a person wait. */
import { BedrockClient } from '@aws-sdk/client-bedrock';
import { CloudFormationClient } from '@aws-sdk/client-cloudformation';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { S3Client } from '@aws-sdk/client-s3';
import { nameOperations } from '../../src/core/errors/aws-failures.ts';
import type { CheckedSettings, Settings } from '../../src/core/settings/schema.ts';

export interface Clients {
  bedrock: BedrockClient;
  cloudFormation: CloudFormationClient;
  /** Also for services without a client of their own (bin/operate/aws-json.ts). */
  lambda: LambdaClient;
  s3: S3Client;
}

/** The state of a CloudFormation stack. */
export interface DeployedState {
  name: string;
  status: string;
}

export interface Ground extends Clients {
  region: string;
  /** The valid ones, with defaults. */
  settings: Partial<CheckedSettings>;
  /** As the stack has them, if all are valid. */
  complete: Settings | undefined;
  /** Ends with `/`. */
  capturePrefix: string | undefined;
  /** The stack of STACK_PREFIX. */
  stack: Promise<DeployedState | undefined>;
  /** Whether its functions are there; `undefined` if that could not be asked. */
  isDeployed: Promise<boolean | undefined>;
  /** The person says that there is a stack. */
  isNamed: boolean;
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
