/** The limits over the emulator’s DynamoDB. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { drainThrottles } from '../../src/core/process/throttles.ts';
import { LimitsTable } from '../../src/limits/table.ts';
import { startQuotaShim } from '../doubles/quota-shim/quota-shim.ts';
import { emulated } from '../helpers/emulated.ts';
import { createItemTable } from '../helpers/item-table.ts';
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
  await createItemTable(ministack.url, name);
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

test('a throttled table is waited for, with DynamoDB’s own replies, and a table that is missing is not', async () => {
  const { name } = await newTable();
  const directory = mkdtempSync(packagePath('.local', 'quota-test-'));
  const urls = { aws: ministack.url, mlflow: ministack.url, judge: ministack.url };
  // It counts the writes of a partition, and its clock stands still.
  const shim = await startQuotaShim(urls, { partitionWrites: 1 }, directory, () => 0);
  try {
    const behind = new DynamoDBClient({ ...emulated(shim.urls.aws), maxAttempts: 1 });
    const [table, missing] = [new LimitsTable(behind, name), new LimitsTable(behind, 'missing')];
    const again = { scope: 'first', expression: 'ADD #spent :one', values: { one: 1 } };
    await table.update(again);
    drainThrottles();
    const refused = await Promise.allSettled([table.update(again), missing.update(again)]);
    const names = refused.map((each) => each.status === 'rejected' && each.reason.name);
    expect(names).toEqual(['BudgetTableThrottled', 'BudgetRefused']);
    expect(drainThrottles().table).toBe(10);
  } finally {
    await shim.stop();
    rmSync(directory, { recursive: true, force: true });
  }
});
