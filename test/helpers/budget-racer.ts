/**
 * One of several processes that spend the same budget, as Lambdas do. It makes concurrent calls, each cheaper than its
 * announced maximum, until the cap has no more room. Prints its payments in nanodollars as JSON.
 *
 * Arguments: DynamoDB endpoint, table, milliseconds that its clock is ahead, run, daily cap, run cap or "none", concurrency,
 * and `hang` to stop forever after its first reservation.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { createBudget } from '../../src/limits/budget/leased-budget.ts';

const [endpoint, table, aheadMs, run, dailyUsd, runUsd, atOnce, hang] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
  string,
  string,
  string?,
];

const client = new DynamoDBClient({
  endpoint,
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
});
const budget = createBudget({
  client,
  table,
  dailyUsd: Number(dailyUsd),
  ...(runUsd === 'none' ? {} : { runUsd: Number(runUsd) }),
  run,
  now: () => Date.now() + Number(aheadMs),
});

const MAX_USD = 0.02;
let paidNanos = 0;
let calls = 0;

async function worker(): Promise<void> {
  for (;;) {
    const reservation = await budget.reserve(MAX_USD);
    if (reservation === 'held') return;
    if (hang === 'hang') {
      console.log('reserved');
      await sleep(600_000);
    }
    // Whole nanodollars, so that sums can be compared exactly. A fifth of the calls cost their maximum.
    const nanos = Math.random() < 0.2 ? 20_000_000 : 1_000_000 + Math.floor(Math.random() * 9_000_000);
    await sleep(Math.random() * 20);
    await reservation.settle(nanos / 1e9);
    paidNanos += nanos;
    calls += 1;
  }
}

// All processes start their calls at the same time, however long their startup took.
console.log('ready');
await once(process.stdin, 'data');
process.stdin.destroy();
await Promise.all(Array.from({ length: Number(atOnce) }, worker));
await budget.close();
console.log(JSON.stringify({ paidNanos, calls }));
client.destroy();
