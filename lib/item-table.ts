/**
 * The stack's DynamoDB tables, whose items expire by themselves: the limits shared by all concurrent functions, and the
 * judge's answers. The answers are content, and in a table of their own, so that only functions that judge can read
 * them.
 */
import { type CfnResource, RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, Billing, type ITableV2, TableEncryptionV2, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { budgetTable } from '../src/core/contract/names.ts';
import type { Settings } from '../src/core/settings/schema.ts';
import { allow, grantKey } from './access/allow.ts';

export function itemTable(scope: Construct, id: string, { WORK_KMS_KEY_ARN: KMSMasterKeyId }: Settings): TableV2 {
  const table = new TableV2(new Construct(scope, id), 'Table', {
    partitionKey: { name: budgetTable.partitionKey, type: AttributeType.STRING },
    timeToLiveAttribute: budgetTable.ttlAttribute,
    // There are a few writes per chunk or capture, and no cost at rest.
    billing: Billing.onDemand(),
    encryption: TableEncryptionV2.dynamoOwnedKey(),
    removalPolicy: RemovalPolicy.DESTROY,
  });
  if (KMSMasterKeyId === undefined) return table;
  // The CDK's own way requires the region, which only the deployment may know.
  const resource = table.node.defaultChild as CfnResource;
  resource.addPropertyOverride('SSESpecification', { SSEEnabled: true, SSEType: 'KMS' });
  resource.addPropertyOverride('Replicas.0.SSESpecification', { KMSMasterKeyId });
  return table;
}

/** Grants reading and changing items: of the budget, to reserve money and record costs; or the judge's answers, to keep them. */
export function grantItems(role: Role, { tableArn }: ITableV2, { WORK_KMS_KEY_ARN: key }: Settings): void {
  allow(role, { actions: ['dynamodb:GetItem', 'dynamodb:UpdateItem'], resources: [tableArn] });
  grantKey(role, key, 'dynamodb', 'table');
}

/** Grants reading and storing many answers at once, to those that ask functions. */
export function grantManyAnswers(role: Role, { tableArn }: ITableV2, { SCORER_FUNCTIONS }: Settings): void {
  if (Object.keys(SCORER_FUNCTIONS).length > 0)
    allow(role, { actions: ['dynamodb:BatchGetItem', 'dynamodb:BatchWriteItem'], resources: [tableArn] });
}

/** Grants the same as `grantItems`, and reading many items of sent traces at once. */
export function grantSentTraces(role: Role, table: ITableV2, settings: Settings): void {
  grantItems(role, table, settings);
  allow(role, { actions: ['dynamodb:BatchGetItem'], resources: [table.tableArn] });
}
