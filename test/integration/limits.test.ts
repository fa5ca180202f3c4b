/** The limits over the emulator’s DynamoDB. */
import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { budgetTable } from '../../src/core/contract/names.ts';
import { emulated } from '../helpers/emulated.ts';
import { limitsSuite, type TestTable } from '../helpers/limits-suite.ts';

let ministack: MiniStack;
let client: DynamoDBClient;
let requests = 0;
let underWay = 0;
let lostReplies = 0;

beforeAll(async () => {
  ministack = await startMiniStack();
  client = new DynamoDBClient(emulated(ministack.url));
  client.middlewareStack.add(
    (next) => (args) => {
      requests += 1;
      underWay += 1;
      return next(args).finally(() => {
        underWay -= 1;
      });
    },
    { step: 'initialize', priority: 'high' },
  );
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      if (lostReplies === 0 || !('UpdateExpression' in args.input)) return result;
      lostReplies -= 1;
      // The SDK repeats a request if the connection breaks, unless its sender forbids it.
      throw Object.assign(new Error('socket hang up'), { name: 'TimeoutError', code: 'ECONNRESET' });
    },
    { step: 'deserialize', priority: 'low' },
  );
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
  const loseReply = (): void => {
    lostReplies += 1;
  };
  const idle = async (): Promise<void> => {
    do await setImmediate();
    while (underWay > 0);
  };
  return { client, name, idle, requests: () => requests, loseReply };
}

limitsSuite(newTable);
