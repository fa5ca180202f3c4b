/** The limits over the emulator’s DynamoDB. */
import { randomUUID } from 'node:crypto';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { budgetTable } from '../../src/core/contract/names.ts';
import { limitsSuite, type TestTable } from '../helpers/limits-suite.ts';

let ministack: MiniStack;
let client: DynamoDBClient;

beforeAll(async () => {
  ministack = await startMiniStack();
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  client = new DynamoDBClient({ endpoint: ministack.url, region: ministack.region, credentials });
});

afterAll(async () => {
  client?.destroy();
  await ministack?.stop();
});

async function newTable(): Promise<TestTable> {
  const name = `limits-${randomUUID()}`;
  await client.send(
    new CreateTableCommand({
      TableName: name,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: budgetTable.partitionKey, AttributeType: 'S' }],
      KeySchema: [{ AttributeName: budgetTable.partitionKey, KeyType: 'HASH' }],
    }),
  );
  return { client, name };
}

limitsSuite(newTable);
