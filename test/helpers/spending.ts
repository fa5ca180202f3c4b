/** Reads the budget's table: what a day or a run has spent. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { asNumber, LimitsTable } from '../../src/limits/table.ts';

const NANOS_PER_USD = 1e9;

/** Returns the paid US dollars, and the committed ones: paid, or in a block or a deposit. */
export async function readSpending(
  { client, table }: { client: DynamoDBClient; table: string },
  scope: string,
): Promise<{ spentUsd: number; committedUsd: number }> {
  const { spent, committed } = await new LimitsTable(client, table).get(scope);
  return { spentUsd: asNumber(spent) / NANOS_PER_USD, committedUsd: asNumber(committed) / NANOS_PER_USD };
}
