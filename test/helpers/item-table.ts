/** A table of answers in the emulator. */
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Storage } from '../../src/core/aws/storage.ts';
import { budgetTable } from '../../src/core/contract/names.ts';
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { AnswerTable } from '../../src/monitoring/evaluate/answer-table.ts';
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

/** @returns a function that gives the answers of an attempt; they are in the table `answers` */
export function answersIn(endpoint: string, storage: Storage, workBucket: string) {
  const client = new DynamoDBClient(emulated(endpoint));
  const place = { table: new LimitsTable(client, 'answers'), storage, workBucket };
  return (request: ChunkRequest, requestId: string, ms: number): AnswerTable =>
    new AnswerTable(place, request, { requestId, untilMs: Date.now() + ms });
}
