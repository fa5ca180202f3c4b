/** A throttled table is waited for, with DynamoDB's own replies: a shim before the emulator counts the writes of a partition. */
import { mkdtempSync, rmSync } from 'node:fs';
import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { drainThrottles } from '../../src/core/process/throttles.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { type QuotaShim, startQuotaShim } from '../doubles/quota-shim/quota-shim.ts';
import { emulated } from '../helpers/emulated.ts';

const TABLE = 'quota-table';

let miniStack: MiniStack;
let shim: QuotaShim;
let directory: string;

const clientOf = (endpoint: string): DynamoDBClient => new DynamoDBClient({ ...emulated(endpoint), maxAttempts: 1 });

beforeAll(async () => {
  directory = mkdtempSync(packagePath('.local', 'quota-test-'));
  miniStack = await startMiniStack();
  await clientOf(miniStack.url).send(
    new CreateTableCommand({
      TableName: TABLE,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: 'scope', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'scope', KeyType: 'HASH' }],
    }),
  );
  const urls = { aws: miniStack.url, mlflow: miniStack.url, judge: miniStack.url };
  // The clock stands still.
  shim = await startQuotaShim(urls, { partitionWrites: 1 }, directory, () => 0);
});

afterAll(async () => {
  await shim?.stop();
  await miniStack?.stop();
  rmSync(directory, { recursive: true, force: true });
});

test('and a table that is missing is not', async () => {
  const client = clientOf(shim.urls.aws);
  const [table, missing] = [new LimitsTable(client, TABLE), new LimitsTable(client, 'missing')];
  const again = { scope: 'first', expression: 'ADD #spent :one', values: { one: 1 } };
  await table.update(again);
  drainThrottles();
  const refused = await Promise.allSettled([table.update(again), missing.update(again)]);
  const names = refused.map((each) => each.status === 'rejected' && each.reason.name);
  expect(names).toEqual(['BudgetTableThrottled', 'BudgetRefused']);
  expect(drainThrottles().table).toBe(10);
});
