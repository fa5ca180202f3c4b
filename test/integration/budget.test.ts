/** The turns to write, with DynamoDB's wire protocol. */
import { randomUUID } from 'node:crypto';
import { CreateTableCommand, DynamoDBClient, PutItemCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { budgetTable } from '../../src/core/contract/names.ts';
import { BudgetTable } from '../../src/limits/table.ts';
import { WriteTurns } from '../../src/monitoring/log/write-turns.ts';

let ministack: MiniStack;
let client: DynamoDBClient;
let table: string;

beforeAll(async () => {
  ministack = await startMiniStack();
  client = new DynamoDBClient({
    endpoint: ministack.url,
    region: ministack.region,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
});

beforeEach(async () => {
  table = `budget-${randomUUID()}`;
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: budgetTable.partitionKey, AttributeType: 'S' }],
      KeySchema: [{ AttributeName: budgetTable.partitionKey, KeyType: 'HASH' }],
    }),
  );
});

afterAll(async () => {
  client?.destroy();
  await ministack?.stop();
});

test('of the runs over the same lines, one writes at a time, and the next one learns of it', async () => {
  const range = { bucket: 'captures', key: 'a.jsonl', etag: 'e', start: 0 };
  const turns = (mine: string) => new WriteTurns(new BudgetTable(client, table), mine);
  const order: string[] = [];
  const learned: string[] = [];
  const written = {
    isWritten: () => false,
    saveWritten: async () => undefined,
    learnWritten: async (chunks: readonly string[]) => void learned.push(...chunks),
  };
  const [first, second] = [turns('one/0'), turns('two/0')];
  const write = (run: string) => async () => {
    order.push(run);
    await new Promise((resolve) => setTimeout(resolve, 50));
    order.push(run);
  };
  await Promise.all([first.during([range], written, write('one')), second.during([range], written, write('two'))]);
  const [winner = '', , loser = ''] = order;
  expect(order).toEqual([winner, winner, loser, loser]);
  expect(learned).toEqual([`${winner}/0`]);
  // A run that starts later learns it only when it asks.
  const third = turns('three/0');
  await third.during([range], written, write('three'));
  expect([learned.length, [...(await third.lastWriters([range]))].sort()]).toEqual([1, ['one/0', 'two/0']]);
  // An attempt after a kill learns what the killed one has learned.
  const again = new WriteTurns(new BudgetTable(client, table), `${loser}/0`, Date.now() - 60_000);
  await again.during([range], written, write(loser));
  expect(learned.slice(1).sort()).toEqual(['three/0', `${winner}/0`].sort());
});

test('what another run wrote long ago is read once, and again only if it has written since', async () => {
  const range = { bucket: 'captures', key: 'a.jsonl', etag: 'e', start: 0 };
  const turns = (mine: string, sinceMs?: number) => new WriteTurns(new BudgetTable(client, table), mine, sinceMs);
  const learned: string[][] = [];
  const written = {
    isWritten: () => false,
    saveWritten: async () => undefined,
    learnWritten: async (chunks: readonly string[]) => void learned.push([...chunks]),
  };
  const write = (by: WriteTurns) => by.during([range], written, async () => undefined);
  await write(turns('other/0'));
  const { Items: [item = {}] = [] } = await client.send(new ScanCommand({ TableName: table }));
  const anHourAgo = { N: String(Date.now() - 3_600_000) };
  await client.send(new PutItemCommand({ TableName: table, Item: { ...item, until: anHourAgo } }));
  learned.length = 0;
  const retry = turns('retry/0', 0);
  await write(retry);
  await write(retry);
  expect(learned).toEqual([['other/0'], []]);
  await write(turns('other/0'));
  await write(retry);
  expect(learned.at(-1)).toEqual(['other/0']);
});

test('an item names the last six runs that wrote its lines, and costs one write unit', async () => {
  const range = { bucket: 'captures', key: 'a.jsonl', etag: 'e', start: 0 };
  const name = (n: number) => `${'r'.repeat(79)}${n}/00000000`;
  const turns = (n: number) => new WriteTurns(new BudgetTable(client, table), name(n));
  for (let n = 0; n < 9; n += 1) await turns(n).during([range], undefined, async () => undefined);
  const { Items = [] } = await client.send(new ScanCommand({ TableName: table }));
  expect(Items).toHaveLength(1);
  expect(JSON.stringify(Items[0]).length).toBeLessThan(1024);
  expect(Object.keys(Items[0]?.writers?.M ?? {}).sort()).toEqual([2, 3, 4, 5, 6, 7].map(name));
  expect([...(await turns(9).lastWriters([range]))].sort()).toEqual([2, 3, 4, 5, 6, 7, 8].map(name));
});
