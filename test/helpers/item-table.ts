/** Tables of items in the emulator. */
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../../src/core/contract/names.ts';
import { emulated } from './emulated.ts';

/** Creates a table of items. */
export async function createItemTable(endpoint: string, TableName: string): Promise<void> {
  const client = new DynamoDBClient(emulated(endpoint));
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: budgetTable.partitionKey, AttributeType: 'S' }],
      KeySchema: [{ AttributeName: budgetTable.partitionKey, KeyType: 'HASH' }],
    }),
  );
  client.destroy();
}
