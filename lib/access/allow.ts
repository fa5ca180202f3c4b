/** Adds permissions to a role. Every resource is named; a wildcard needs a reason, which cdk-nag records. */
import { Stack, Token } from 'aws-cdk-lib';
import { PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';
import { pseudonymKeyName } from '../../src/core/contract/names.ts';
import { isRedacted } from '../../src/core/settings/redact-setting.ts';
import type { Settings } from '../../src/core/settings/schema.ts';
import { acknowledge } from '../acknowledge.ts';

interface Permission {
  actions: string[];
  resources: string[];
  conditions?: Record<string, Record<string, string | string[]>> | undefined;
  /** Required if an action or a resource has a wildcard: why it cannot be narrower. */
  why?: string;
}

/** Returns the ARN of a resource in the account and the region of the stack. */
export function arnIn(scope: Construct, service: string, resource: string): string {
  const { partition, region, account } = Stack.of(scope);
  return `arn:${partition}:${service}:${region}:${account}:${resource}`;
}

/** Returns the ARN of an endpoint, which IAM spells in lower case. */
export const endpointArn = (scope: Construct, name: string): string =>
  arnIn(scope, 'sagemaker', `endpoint/${name.toLowerCase()}`);

/** Returns the ARNs of inference components. How IAM spells them is not documented: unchanged, and in lower case. */
export const componentArns = (scope: Construct, names: readonly string[]): string[] =>
  [...new Set(names.flatMap((name) => [name, name.toLowerCase()]))].map((name) =>
    arnIn(scope, 'sagemaker', `inference-component/${name}`),
  );

/** The condition that the resource belongs to an account. */
export const inAccount = (account: string) => ({ StringEquals: { 'aws:ResourceAccount': account } });

/**
 * Escapes a text for use in the resource of a policy, where `*` and `?` are wildcards and `${` begins a variable. IAM
 * has the variables `${*}`, `${?}` and `${$}` for the characters themselves. Values that only the deployment knows must
 * not contain them.
 */
export const escapeIamPattern = (text: string): string =>
  Token.isUnresolved(text) ? text : text.replace(/[*?$]/g, '$${$&}');

/** @throws Error if a wildcard has no reason */
export function allow(role: Role, { why, ...statement }: Permission): void {
  role.addToPolicy(new PolicyStatement(statement));
  const stack = Stack.of(role);
  const wild = [
    ...statement.actions.filter((action) => action.includes('*')).map((action) => `Action::${action}`),
    ...statement.resources.filter((arn) => arn.includes('*')).map((arn) => `Resource::${asText(stack.resolve(arn))}`),
  ];
  for (const finding of wild) {
    if (why === undefined) throw new Error(`${role.node.path} has ${finding} without a reason`);
    acknowledge(role, { [`AwsSolutions-IAM5[${finding}]`]: why });
  }
}

/** Formats a resolved ARN as cdk-nag does: references as `<logical id>` or `<logical id.attribute>`. */
function asText(value: unknown): string {
  if (typeof value === 'string') return value;
  const [[name, argument] = []] = Object.entries(value as Record<string, unknown>);
  if (name === 'Ref') return `<${argument}>`;
  if (name === 'Fn::GetAtt') return `<${(argument as string[]).join('.')}>`;
  if (name === 'Fn::Join') return (argument as [string, unknown[]])[1].map(asText).join('');
  // A value of an app or of a parameter, which cdk-nag has no short form for.
  return JSON.stringify(value);
}

const DECRYPT = 'kms:Decrypt';
const NEW_DATA_KEY = 'kms:GenerateDataKey';

/** The actions on the key that a request to each service needs. The services' own documentation names them. */
export const KEY_USE = {
  read: [DECRYPT],
  write: [NEW_DATA_KEY],
  // Needed for an upload too, whose parts are decrypted when it is completed, and for a message, because SQS reuses
  // data keys.
  both: [DECRYPT, NEW_DATA_KEY],
  // https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
  table: [DECRYPT, 'kms:DescribeKey', 'kms:Encrypt', NEW_DATA_KEY, 'kms:ReEncryptFrom', 'kms:ReEncryptTo'],
};

/**
 * @param keyArn `undefined` if no customer key is used, so that no grant is needed
 * @param context encryption context that KMS must receive, by condition key; it restricts a key with a wildcard
 */
export function grantKey(
  role: Role,
  keyArn: string | undefined,
  service: 's3' | 'dynamodb' | 'sns' | 'sqs' | 'secretsmanager',
  use: keyof typeof KEY_USE,
  context: Record<string, string> = {},
): void {
  if (keyArn === undefined) return;
  const { region, urlSuffix } = Stack.of(role);
  allow(role, {
    actions: KEY_USE[use],
    resources: [keyArn],
    conditions: { StringEquals: { 'kms:ViaService': `${service}.${region}.${urlSuffix}`, ...context } },
    why: 'Secrets Manager alone knows the key of a secret. The condition names the secret.',
  });
}

/**
 * Grants reading a secret, and using the key that encrypts it. Secrets Manager gives KMS the secret's ARN as encryption
 * context (https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html).
 */
export function grantSecret(role: Role, secretArn: string | undefined): void {
  if (secretArn === undefined) return;
  allow(role, { actions: ['secretsmanager:GetSecretValue'], resources: [secretArn] });
  const { partition, region } = Stack.of(role);
  const keys = `arn:${partition}:kms:${region}:*:key/*`;
  grantKey(role, keys, 'secretsmanager', 'read', { 'kms:EncryptionContext:SecretARN': secretArn });
}

/**
 * Grants reading the key of the pseudonyms where captures are masked, and making it, by the first function that needs it. It is no resource
 * of the stack, since it survives the stack.
 *
 * @param always also where captures are no longer masked
 */
export function grantPseudonymKey(role: Role, settings: Settings, always = false): void {
  if (!always && !isRedacted(settings)) return;
  allow(role, {
    actions: ['secretsmanager:GetSecretValue', 'secretsmanager:CreateSecret'],
    resources: [arnIn(role, 'secretsmanager', `secret:${pseudonymKeyName(settings.STACK_PREFIX)}-??????`)],
    why: 'Secrets Manager adds six characters to the name of a secret.',
  });
}

/** Returns the customer's key for all data that the stack stores; `undefined` for the services' own keys. */
export function workKey(scope: Construct, { WORK_KMS_KEY_ARN: arn }: Settings): IKey | undefined {
  if (arn === undefined) return undefined;
  const id = 'WorkKey';
  return (scope.node.tryFindChild(id) as IKey | undefined) ?? Key.fromKeyArn(scope, id, arn);
}
