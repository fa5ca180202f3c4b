/** Permission to use KMS keys, each only through the service that stores what it encrypts. */
import { Stack } from 'aws-cdk-lib';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';
import type { Settings } from '../../src/core/settings/schema.ts';
import { allow } from './allow.ts';

const DECRYPT = 'kms:Decrypt';
const NEW_DATA_KEY = 'kms:GenerateDataKey';

/** What a request to each service needs of the key. The services' own documents name these actions. */
export const KEY_USE = {
  read: [DECRYPT],
  write: [NEW_DATA_KEY],
  // Also for an upload, whose parts are decrypted when it is completed, and for a message, since SQS reuses data keys.
  both: [DECRYPT, NEW_DATA_KEY],
  // https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
  table: [DECRYPT, 'kms:DescribeKey', 'kms:Encrypt', NEW_DATA_KEY, 'kms:ReEncryptFrom', 'kms:ReEncryptTo'],
};

/** @param keyArn `undefined`: nothing of the person's encrypts it, so there is nothing to grant */
export function grantKey(
  role: Role,
  keyArn: string | undefined,
  service: 's3' | 'dynamodb' | 'sns' | 'sqs' | 'secretsmanager',
  use: keyof typeof KEY_USE,
): void {
  if (keyArn === undefined) return;
  const { region, urlSuffix } = Stack.of(role);
  allow(role, {
    actions: KEY_USE[use],
    resources: [keyArn],
    conditions: { StringEquals: { 'kms:ViaService': `${service}.${region}.${urlSuffix}` } },
  });
}

/** Grants reading a secret, and the key of secrets if there is one. */
export function grantSecret(role: Role, secretArn: string | undefined, settings: Settings): void {
  if (secretArn === undefined) return;
  allow(role, { actions: ['secretsmanager:GetSecretValue'], resources: [secretArn] });
  grantKey(role, settings.SECRETS_KMS_KEY_ARN, 'secretsmanager', 'read');
}

/** The person's key for everything that the stack stores; `undefined`: the services' own keys. */
export function workKey(scope: Construct, { WORK_KMS_KEY_ARN: arn }: Settings): IKey | undefined {
  if (arn === undefined) return undefined;
  const id = 'WorkKey';
  return (scope.node.tryFindChild(id) as IKey | undefined) ?? Key.fromKeyArn(scope, id, arn);
}
