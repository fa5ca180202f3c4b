/** What the judge may spend: reservations that hold across concurrent Lambdas and expire by themselves. */
import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, Billing, TableEncryptionV2, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Construct } from 'constructs';
import { budgetTable } from '../lambda/contract.ts';

export class BudgetTable extends Construct {
  readonly table: TableV2;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    this.table = new TableV2(this, 'Table', {
      partitionKey: { name: budgetTable.partitionKey, type: AttributeType.STRING },
      timeToLiveAttribute: budgetTable.ttlAttribute,
      // A few writes a chunk: nothing is paid at rest.
      billing: Billing.onDemand(),
      encryption: TableEncryptionV2.dynamoOwnedKey(),
      removalPolicy: RemovalPolicy.DESTROY,
    });
  }
}
