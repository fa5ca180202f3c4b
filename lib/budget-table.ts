/** The table of the judge's budget: reservations that all concurrent Lambdas see, and that expire by themselves. */
import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, Billing, type ITableV2, TableEncryptionV2, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { Role } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { budgetTable } from '../src/contract/names.ts';
import type { Settings } from '../src/settings/schema.ts';
import { allow } from './access/allow.ts';
import { grantKey, workKey } from './access/key.ts';

export class JudgeBudgetTable extends Construct {
  readonly table: TableV2;

  constructor(scope: Construct, id: string, settings: Settings) {
    super(scope, id);
    const key = workKey(this, settings);
    this.table = new TableV2(this, 'Table', {
      partitionKey: { name: budgetTable.partitionKey, type: AttributeType.STRING },
      timeToLiveAttribute: budgetTable.ttlAttribute,
      // There are a few writes per chunk, and no cost at rest.
      billing: Billing.onDemand(),
      encryption: key ? TableEncryptionV2.customerManagedKey(key) : TableEncryptionV2.dynamoOwnedKey(),
      removalPolicy: RemovalPolicy.DESTROY,
    });
  }
}

/** Grants reserving money for calls of the judge, and recording their cost. */
export function grantBudget(role: Role, { tableArn, encryptionKey }: ITableV2): void {
  allow(role, { actions: ['dynamodb:GetItem', 'dynamodb:UpdateItem'], resources: [tableArn] });
  grantKey(role, encryptionKey?.keyArn, 'dynamodb', 'table');
}
