/** Reads and writes many items of a table at once. Separate from `LimitsTable`, because only some functions may. */
import { BatchGetItemCommand, BatchWriteItemCommand } from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../core/contract/names.ts';
import { batches } from '../core/values/batches.ts';
import { attributesOf, type Item, type ItemChange, keyOf, type LimitsTable } from './table.ts';

/** DynamoDB's maxima for one request. */
const GOT_AT_ONCE = 100;
const PUT_AT_ONCE = 25;

/** A whole item. */
export type NewItem = Pick<ItemChange, 'scope' | 'values'>;

/**
 * Sends again what DynamoDB has left out: at once after a reply of the greatest size, and as if it had been throttled if it has done
 * nothing.
 *
 * @param send returns what was left out
 */
async function sendAll<T>(table: LimitsTable, parts: readonly T[], send: (left: T[]) => Promise<T[] | undefined>) {
  for (let left = [...parts]; left.length > 0; )
    await table.send('a batch', async () => {
      const before = left.length;
      left = (await send(left)) ?? [];
      if (left.length === before) throw Object.assign(new Error('Left out'), { name: 'ThrottlingException' });
    });
}

/** Returns the existing items, by scope. @throws the errors of `LimitsTable` */
export async function getAll(table: LimitsTable, scopes: readonly string[]): Promise<Map<string, Item>> {
  const { client, name } = table;
  const found = new Map<string, Item>();
  for (const keys of batches([...new Set(scopes)].map(keyOf), GOT_AT_ONCE))
    await sendAll(table, keys, async (Keys) => {
      const command = new BatchGetItemCommand({ RequestItems: { [name]: { Keys, ConsistentRead: true } } });
      const { Responses = {}, UnprocessedKeys = {} } = await client.send(command);
      for (const item of Responses[name] ?? []) found.set(item[budgetTable.partitionKey]?.S ?? '', item);
      return UnprocessedKeys[name]?.Keys;
    });
  return found;
}

/** Writes items, in place of those that exist. @param items of different scopes. @throws the errors of `LimitsTable` */
export async function putAll(table: LimitsTable, items: readonly NewItem[]): Promise<void> {
  const { client, name } = table;
  const puts = items.map(({ scope, values }) => ({
    PutRequest: { Item: { ...keyOf(scope), ...attributesOf(values) } },
  }));
  for (const some of batches(puts, PUT_AT_ONCE))
    await sendAll<(typeof puts)[number] | object>(table, some, async (left) => {
      const command = new BatchWriteItemCommand({ RequestItems: { [name]: left } });
      return (await client.send(command)).UnprocessedItems?.[name];
    });
}
