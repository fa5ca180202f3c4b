/** Reads and writes many items of a table at once. Apart from the table, since only functions that write traces may do it. */
import { BatchGetItemCommand, BatchWriteItemCommand } from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../core/contract/names.ts';
import { batches } from '../core/values/batches.ts';
import { attributesOf, type Item, type ItemChange, keyOf, type LimitsTable } from './table.ts';

/** DynamoDB's bounds of one request. */
const GOT_AT_ONCE = 100;
const PUT_AT_ONCE = 25;

/** Returns those of the items that exist, by scope. @throws the errors of `LimitsTable` */
export async function getAll(table: LimitsTable, scopes: readonly string[]): Promise<Map<string, Item>> {
  const { client, name } = table;
  const found = new Map<string, Item>();
  for (const keys of batches([...new Set(scopes)].map(keyOf), GOT_AT_ONCE)) {
    await whole(table, keys, async (left) => {
      const command = new BatchGetItemCommand({ RequestItems: { [name]: { Keys: left, ConsistentRead: true } } });
      const { Responses = {}, UnprocessedKeys = {} } = await client.send(command);
      for (const item of Responses[name] ?? []) found.set(item[budgetTable.partitionKey]?.S ?? '', item);
      return UnprocessedKeys[name]?.Keys ?? [];
    });
  }
  return found;
}

/** Replaces the items. @throws the errors of `LimitsTable` */
export async function putAll(
  table: LimitsTable,
  items: readonly Pick<ItemChange, 'scope' | 'values'>[],
): Promise<void> {
  const { client, name } = table;
  const puts = items.map(({ scope, values }) => ({
    PutRequest: { Item: { ...keyOf(scope), ...attributesOf(values) } },
  }));
  for (const batch of batches(puts, PUT_AT_ONCE)) {
    await whole(table, batch, async (left) => {
      const { UnprocessedItems = {} } = await client.send(
        new BatchWriteItemCommand({ RequestItems: { [name]: left } }),
      );
      return (UnprocessedItems[name] ?? []) as typeof left;
    });
  }
}

/** @param send returns what DynamoDB has left out, which is sent again as if it had been throttled */
async function whole<T>(table: LimitsTable, batch: T[], send: (left: T[]) => Promise<T[]>): Promise<void> {
  let left = batch;
  await table.send('a batch', async () => {
    left = await send(left);
    if (left.length > 0) throw Object.assign(new Error('Left out'), { name: 'ThrottlingException' });
  });
}
