/** Reads many items of a table at once. Apart from the table, since only functions that write traces may do it. */
import { BatchGetItemCommand } from '@aws-sdk/client-dynamodb';
import { budgetTable } from '../core/contract/names.ts';
import { batches } from '../core/values/batches.ts';
import { type Item, keyOf, type LimitsTable } from './table.ts';

/** DynamoDB's bound of one request. */
const GOT_AT_ONCE = 100;

/** Returns those of the items that exist, by scope. @throws the errors of `LimitsTable` */
export async function getAll(table: LimitsTable, scopes: readonly string[]): Promise<Map<string, Item>> {
  const { client, name } = table;
  const found = new Map<string, Item>();
  for (const keys of batches([...new Set(scopes)].map(keyOf), GOT_AT_ONCE)) {
    let left = keys;
    await table.send('a batch', async () => {
      const command = new BatchGetItemCommand({ RequestItems: { [name]: { Keys: left, ConsistentRead: true } } });
      const { Responses = {}, UnprocessedKeys = {} } = await client.send(command);
      for (const item of Responses[name] ?? []) found.set(item[budgetTable.partitionKey]?.S ?? '', item);
      left = UnprocessedKeys[name]?.Keys ?? [];
      // What DynamoDB has left out is sent again as if it had been throttled.
      if (left.length > 0) throw Object.assign(new Error('Left out'), { name: 'ThrottlingException' });
    });
  }
  return found;
}
